-- case: insert of a key that is there, table with an ordering column
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
insert into t values (1, 'b', 2);
select id, name, ts from t order by name;

-- case: insert of a key that is there, table without an ordering column
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
insert into t values (1, 'b');
select id, name from t order by name;

-- case: insert of doubles in one statement
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1), (1, 'b', 2);
select id, name, ts from t order by name;

-- case: insert with the operation upsert
set hoodie.spark.sql.insert.into.operation = upsert;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
insert into t values (1, 'c', 1);
select id, name, ts from t order by name;

-- case: insert with the operation bulk_insert
set hoodie.spark.sql.insert.into.operation = bulk_insert;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with the mode upsert
set hoodie.sql.insert.mode = upsert;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with the mode upsert and combining
set hoodie.sql.insert.mode = upsert;
set hoodie.combine.before.insert = true;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with the mode strict
set hoodie.sql.insert.mode = strict;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with the mode non-strict
set hoodie.sql.insert.mode = non-strict;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with bulk insert enabled
set hoodie.sql.bulk.insert.enable = true;
set hoodie.sql.insert.mode = non-strict;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with the policy drop
set hoodie.datasource.insert.dup.policy = drop;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3), (2, 'c', 1);
select id, name, ts from t order by id, name;

-- case: insert with the policy fail
set hoodie.datasource.insert.dup.policy = fail;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with the operation as a property of the table
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts', 'hoodie.spark.sql.insert.into.operation' = 'upsert');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with combining before insert
set hoodie.combine.before.insert = true;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1), (1, 'b', 2);
select id, name, ts from t order by name;

-- case: insert into a static partition
create table t (id int, name string, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t partition (dt = '2024-01-01') values (1, 'a');
insert into t partition (dt = '2024-01-02') select 2, 'b';
select id, name, dt from t order by id;

-- case: insert into a dynamic partition
create table t (id int, name string, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t partition (dt) select 1, 'a', '2024-01-01';
select id, name, dt from t order by id;

-- case: insert into a partition, one part static and one dynamic
create table t (id int, dt string, hh string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt, hh);
insert into t partition (dt = '2024-01-01', hh) select 1, '07';
insert into t partition (dt, hh) select 2, '2024-01-02', '08';
select id, dt, hh from t order by id;

-- case: insert into a part of the partition columns
create table t (id int, dt string, hh string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt, hh);
-- differs: The columns that PARTITION does not name are dynamic, as in Spark.
insert into t partition (dt = '2024-01-01') select 1, '07';
-- differs: The columns that PARTITION does not name are dynamic, as in Spark.
select id, dt, hh from t order by id;

-- case: insert with named columns
create table t (id int, name string, price double) using {format} tblproperties (primaryKey = 'id');
insert into t (price, id, name) values (1.5, 1, 'a');
select id, name, price from t;

-- case: insert with some of the columns
create table t (id int, name string, price double, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t (id, name, ts) values (1, 'a', 5);
select id, name, price, ts from t;

-- case: insert with some of the columns of a partitioned table
create table t (id int, name string, price double, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t (dt, name, id) values ('2024-01-01', 'a', 1);
insert into t partition (dt = '2024-01-02') (id, name) values (2, 'b');
select id, name, price, dt from t order by id;

-- case: insert with too few values
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1);
insert into t values (1, 'a', 3);

-- case: insert of a null key
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (null, 'a');

-- case: insert of a null partition
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, null);
select id, dt, _hoodie_partition_path from t;

-- case: insert of a value that needs a cast
create table t (id int, price double) using {format} tblproperties (primaryKey = 'id');
insert into t values (1L, 3);
select id, price from t;

-- case: insert from the table itself
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
insert into t select id + 10, name from t;
select id, name from t order by id;

-- case: insert into a partition by date
create table t (id int, dt date) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, date'2024-01-01');
insert into t partition (dt = '2024-01-02') select 2;
select id, dt, _hoodie_partition_path from t order by id;

-- case: insert into a partition by timestamp
create table t (id int, dt timestamp) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, timestamp'2024-01-01 10:00:00');
insert into t partition (dt = '2024-01-02 10:00:00') select 2;
-- differs: The folder of a time is its microseconds, as Apache Hudi's DataFrame writer names it; Hudi's SQL writes the time as text, without its zone.
select id, dt, _hoodie_partition_path from t order by id;

-- case: insert into a partition by decimal
create table t (id int, d decimal(10,2)) using {format} tblproperties (primaryKey = 'id') partitioned by (d);
insert into t values (1, 1.5);
insert into t partition (d = 2.5) select 2;
select id, d, _hoodie_partition_path from t order by id;

-- case: insert into a partition whose value has a slash
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, '2024/01/01');
select id, dt, _hoodie_partition_path from t order by id;

-- case: insert with the operation of a data frame
set hoodie.datasource.write.operation = upsert;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2);
insert into t values (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with the policy drop and doubles in the statement
set hoodie.datasource.insert.dup.policy = drop;
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 2), (1, 'b', 3);
select id, name, ts from t order by name;

-- case: insert with the mode strict, table without an ordering column
set hoodie.sql.insert.mode = strict;
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
insert into t values (1, 'b');
select id, name from t order by name;

-- case: insert with an operation that there is not
set hoodie.spark.sql.insert.into.operation = replace;
-- differs: A wrong value is an error in the first statement that could use it.
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');

-- case: insert into a table without a key with the operation upsert
set hoodie.spark.sql.insert.into.operation = upsert;
create table t (id int, name string) using {format};
insert into t values (1, 'a');

-- case: insert of rows by name
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t by name select 'a' as name, 1 as id;
select id, name from t;

-- case: insert of nulls
create table t (id int, name string, price double) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, null, null);
select id, name, price from t where name is null;

-- case: insert of an empty text as key
create table t (id string, v int) using {format} tblproperties (primaryKey = 'id');
insert into t values ('', 1);

-- case: insert of an empty text as partition
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, '');
select id, _hoodie_partition_path from t;

-- case: insert of a boolean and an int partition
create table t (id int, a boolean, b int) using {format} tblproperties (primaryKey = 'id') partitioned by (a, b);
insert into t values (1, true, 7);
select id, a, b, _hoodie_partition_path from t;

-- case: insert of structs, arrays and maps
create table t (id int, s struct<a:int,b:string>, l array<struct<x:int>>, m map<string,array<int>>) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, named_struct('a', 1, 'b', 'x'), array(named_struct('x', 1)), map('k', array(1, 2)));
select id, s.b, l[0].x, m['k'][1] from t;

-- case: insert from a Parquet table
create table p (id int, name string) using parquet;
insert into p values (1, 'a');
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t select * from p;
select id, name from t;

-- case: insert of a text that is no number
create table t (id int, v int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'x');

-- case: insert into a column that there is not
create table t (id int, v int) using {format} tblproperties (primaryKey = 'id');
insert into t (id, w) values (1, 2);

-- case: insert into a partition of a column that is no partition
create table t (id int, v int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t partition (v = 1) select 1, 'x';
