-- case: a table with a key and an ordering column
create table t (id int, name string, price double, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 10, 1), (2, 'b', 20, 1);
select id, name, price, ts from t order by id;

-- case: a table without a key
create table t (id int, name string) using {format};
insert into t values (1, 'a'), (1, 'a');
select id, name from t;

-- case: a table with two key columns
create table t (a int, b string, v int) using {format} tblproperties (primaryKey = 'a,b');
insert into t values (1, 'x', 1), (1, 'y', 2);
update t set v = 9 where a = 1 and b = 'y';
select a, b, v, _hoodie_record_key from t order by b;

-- case: options in OPTIONS instead of TBLPROPERTIES
create table t (id int, name string, ts bigint) using {format} options (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
merge into t using (select 1 as id, 'b' as name, 2L as ts) s on t.id = s.id when matched then update set *;
select id, name, ts from t;

-- case: keys by their long names
create table t (id int, name string, ts bigint) using {format} tblproperties ('hoodie.datasource.write.recordkey.field' = 'id', 'hoodie.datasource.write.precombine.field' = 'ts');
insert into t values (1, 'a', 1);
update t set name = 'b' where id = 1;
select id, name, _hoodie_record_key from t;

-- case: a partitioned table, its columns and its folders
create table t (id int, name string, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'a', '2024-01-01'), (2, 'b', '2024-01-02');
select id, name, dt, _hoodie_partition_path from t order by id;

-- case: a partition column that stands first in the definition
create table t (dt string, id int, name string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'a', '2024-01-01');
select id, name, dt from t;

-- case: a table with two partition columns
create table t (id int, dt string, hh int) using {format} tblproperties (primaryKey = 'id') partitioned by (dt, hh);
insert into t values (1, '2024-01-01', 7), (2, '2024-01-01', 8);
select id, dt, hh, _hoodie_partition_path from t order by id;

-- case: a table at a location
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id') location '{folder}/t';
insert into t values (1, 'a');
drop table t;
create table t using {format} location '{folder}/t';
select id, name from t;

-- case: a key that is no column
create table t (id int, name string) using {format} tblproperties (primaryKey = 'key');

-- case: an ordering column that is no column
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');

-- case: a partition column that is no column
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);

-- case: a table that is there already
create table t (id int) using {format};
create table t (id int) using {format};
create table if not exists t (id int) using {format};

-- case: hoodie.table.name among the properties
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id', 'hoodie.table.name' = 'other');
insert into t values (1, 'a');
select id, name from t;

-- case: hoodie.table.name among the properties, the table's own
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id', 'hoodie.table.name' = 't');
insert into t values (1, 'a');
select id, name from t;

-- case: types of columns
create table t (id int, a boolean, b tinyint, c smallint, d bigint, e float, f decimal(10,2), g date, h timestamp, i binary, j array<int>, k map<string,int>, l struct<x:int,y:string>) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, true, 1Y, 2S, 3L, 1.5F, 12.34, date'2024-01-01', timestamp'2024-01-01 10:00:00', X'01', array(1, 2), map('a', 1), struct(1, 'y'));
select id, a, b, c, d, e, f, g, h, i, j, k, l from t;

-- case: a table like another of the format
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts') comment 'first';
create table c like t using {format};
insert into c values (1, 'a', 1);
select id, name, ts from c;

-- case: a table like one of Parquet
create table p (id int, name string) using parquet;
create table c like p using {format} tblproperties (primaryKey = 'id');
insert into c values (1, 'a');
select id, name from c;

-- case: drop a table, and the same name again
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
drop table t;
create table t (id int) using {format} tblproperties (primaryKey = 'id');
insert into t values (7);
select id from t;

-- case: drop a table that is not there
drop table t;
drop table if exists t;

-- case: drop an external table keeps its files
create table t (id int) using {format} tblproperties (primaryKey = 'id') location '{folder}/kept';
insert into t values (1);
drop table t;
create table t using {format} location '{folder}/kept';
select id from t;

-- case: drop an external table with purge
create table t (id int) using {format} tblproperties (primaryKey = 'id') location '{folder}/purged';
insert into t values (1);
drop table t purge;
create table t (id int, other string) using {format} tblproperties (primaryKey = 'id') location '{folder}/purged';
select id, other from t;

-- case: an ordering column in a struct
create table t (id int, s struct<ts:bigint,v:int>) using {format} tblproperties (primaryKey = 'id', preCombineField = 's.ts');
insert into t values (1, struct(1L, 1));
select id, s from t;

-- case: a table with the type mor
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
insert into t values (1, 'a', 1);
select id, name from t;

-- case: a column with a default
-- differs: A default is taken here: an INSERT that leaves the column out writes it.
create table t (id int, name string default 'x') using {format} tblproperties (primaryKey = 'id');

-- case: a table whose key is named by another case
create table t (ID int, Name string) using {format} tblproperties (primaryKey = 'ID');
insert into t values (1, 'a');
select id, name from t;

-- case: a table with orderingFields
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', orderingFields = 'ts');
insert into t values (1, 'a', 5);
update t set name = 'b', ts = 6 where id = 1;
select id, name, ts from t;

-- case: a table with two ordering columns
-- differs: Several ordering columns are taken in SQL too; Hudi's SQL takes one.
create table t (id int, name string, a int, b int) using {format} tblproperties (primaryKey = 'id', orderingFields = 'a,b');
-- differs: Several ordering columns are taken in SQL too; Hudi's SQL takes one.
insert into t values (1, 'x', 1, 5);
-- differs: Several ordering columns are taken in SQL too; Hudi's SQL takes one.
merge into t using (select 1 as id, 'y' as name, 1 as a, 6 as b) s on t.id = s.id when matched then update set *;
-- differs: Several ordering columns are taken in SQL too; Hudi's SQL takes one.
select id, name, a, b from t;

-- case: a table ordered by commit time
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts', 'hoodie.record.merge.mode' = 'COMMIT_TIME_ORDERING');
insert into t values (1, 'a', 5);
merge into t using (select 1 as id, 'b' as name, 1L as ts) s on t.id = s.id when matched then update set *;
select id, name, ts from t;

-- case: a table of type cow
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id', type = 'cow');
insert into t values (1, 'a');
select id, name from t;

-- case: a table of an unknown type
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id', type = 'heap');

-- case: a table whose folders are not hive style
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id', 'hoodie.datasource.write.hive_style_partitioning' = 'false') partitioned by (dt);
insert into t values (1, 'x');
select id, dt, _hoodie_partition_path from t;

-- case: a table whose folders are url encoded
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id', 'hoodie.datasource.write.partitionpath.urlencode' = 'true') partitioned by (dt);
insert into t values (1, '2024/01/01');
select id, dt, _hoodie_partition_path from t;
show partitions t;

-- case: a table in a database
create table sides.t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into sides.t values (1, 'a');
select id, name from sides.t;

-- case: a location that has a table with another schema
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id') location '{folder}/t';
insert into t values (1, 'a');
-- differs: A definition that contradicts the table at its place is an error.
create table u (id string, name string) using {format} tblproperties (primaryKey = 'id') location '{folder}/t';

-- case: a location that has a table with another key
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id') location '{folder}/t';
insert into t values (1, 'a');
create table u (id int, name string) using {format} tblproperties (primaryKey = 'name') location '{folder}/t';

-- case: a location that has a table, with its properties said again
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id') location '{folder}/t';
insert into t values (1, 'a');
create table u (id int, name string) using {format} tblproperties (primaryKey = 'id') location '{folder}/t';
insert into u values (2, 'b');
select id, name from t order by id;

-- case: a table like another without USING
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
create table c like t using {format};
create table c like t using {format};
create table if not exists c like t using {format};
insert into c values (1, 'a');
select id, name from c;
