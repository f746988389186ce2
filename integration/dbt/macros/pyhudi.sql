{# The record key of a Hudi table: the model's unique_key, and of a snapshot dbt's id of a version.
   dbt-spark takes unique_key for both, but a snapshot has several rows for one of it. #}
{% macro spark__options_clause() -%}
  {%- set options = dict(config.get('options') or {}) -%}
  {%- set key = config.get('unique_key') -%}
  {%- if model.resource_type == 'snapshot' -%}
    {%- set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
    {%- set key = names.dbt_scd_id -%}
  {%- endif -%}
  {%- if config.get('file_format') == 'hudi' and key and 'primaryKey' not in options -%}
    {%- do options.update({'primaryKey': key if key is string else key | join(',')}) -%}
  {%- endif -%}
  {%- if options %}
    options (
      {%- for name in options -%}
      '{{ name }}' = '{{ options[name] }}' {{- ', ' if not loop.last -}}
      {%- endfor -%}
    )
  {%- endif -%}
{%- endmacro %}

{# on_schema_change: sync_all_columns. dbt-spark refuses to drop columns, which pyhudi can. #}
{% macro spark__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% if remove_columns and relation.is_hudi %}
    {% do run_query('alter table ' ~ relation ~ ' drop columns ('
        ~ remove_columns | map(attribute='quoted') | join(', ') ~ ')') %}
    {% set remove_columns = none %}
  {% endif %}
  {% if add_columns or remove_columns %}
    {% do dbt.spark__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% endif %}
{% endmacro %}
