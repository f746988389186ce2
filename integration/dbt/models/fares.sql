{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key=['ride', 'city'],
    tblproperties={'preCombineField': 'updated_at'},
    on_schema_change='sync_all_columns',
    persist_docs={'relation': true, 'columns': true}
) }}
select * {{ '' if is_incremental() else ", 'first' as note" }} from {{ ref('trips') }}
{% if is_incremental() %}
where updated_at > (select max(updated_at) from {{ this }})
{% endif %}
