-- case: create as select
create table t using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts') as select 1 as id, 'a' as name, 1L as ts;
select id, name, ts from t;

-- case: create as select keeps rows of the same key
create table t using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts') as select * from values (1, 'a', 1L), (1, 'b', 2L), (2, 'c', 1L) as v(id, name, ts);
select id, name, ts from t order by id, name;

-- case: create as select, partitioned
create table t using {format} tblproperties (primaryKey = 'id') partitioned by (dt) as select 1 as id, 'a' as name, '2024-01-01' as dt;
select id, name, dt, _hoodie_partition_path from t;

-- case: create as select of a partition column in the middle
create table t using {format} tblproperties (primaryKey = 'id') partitioned by (dt) as select 1 as id, '2024-01-01' as dt, 'a' as name;
select * from t;

-- case: create as select without a key
create table t using {format} as select 1 as id, 'a' as name;
insert into t select 2, 'b';
select id, name from t order by id;

-- case: create as select over a table that is there
create table t using {format} as select 1 as id;
create table t using {format} as select 2 as id;
create table if not exists t using {format} as select 3 as id;
select id from t;

-- case: create as select at a location
create table t using {format} tblproperties (primaryKey = 'id') location '{folder}/t' as select 1 as id, 'a' as name;
select id, name from t;

-- case: create as select of a null key
create table t using {format} tblproperties (primaryKey = 'id') as select cast(null as int) as id, 'a' as name;

-- case: create as select partitioned by a date
create table t using {format} tblproperties (primaryKey = 'id') partitioned by (d) as select 1 as id, date'2024-01-01' as d;
select id, d, _hoodie_partition_path from t;

-- case: create as select partitioned by a timestamp
create table t using {format} tblproperties (primaryKey = 'id') partitioned by (d) as select 1 as id, timestamp'2024-01-01 10:20:30' as d;
-- differs: The folder of a time is its microseconds, as Apache Hudi's DataFrame writer names it; Hudi's SQL writes the time as text, without its zone.
select id, d, _hoodie_partition_path from t;

-- case: replace a table as select
create table t using {format} tblproperties (primaryKey = 'id') as select 1 as id, 'a' as name;
-- differs: CREATE OR REPLACE TABLE replaces all rows in one commit; Apache Hudi has no REPLACE TABLE.
create or replace table t using {format} tblproperties (primaryKey = 'id') as select 2 as id, 'b' as name;
-- differs: CREATE OR REPLACE TABLE replaces all rows in one commit; Apache Hudi has no REPLACE TABLE.
select id, name from t;
