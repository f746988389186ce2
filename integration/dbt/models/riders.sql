{{ config(materialized='table', unique_key='rider', persist_docs={'columns': true}) }}
select rider, count(*) as rides from {{ ref('fares') }} group by rider
