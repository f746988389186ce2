{{ config(materialized='incremental', incremental_strategy='append') }}
select city, ride, updated_at from {{ ref('trips') }}
{% if is_incremental() %}
where updated_at > (select max(updated_at) from {{ this }})
{% endif %}
