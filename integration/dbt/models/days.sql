{{ config(
    materialized='incremental',
    incremental_strategy='insert_overwrite',
    partition_by=['day']
) }}
select count(*) as rides, sum(fare) as fares, day from {{ ref('trips') }}
{% if is_incremental() %}
where day >= (select max(day) from {{ this }})
{% endif %}
group by day
