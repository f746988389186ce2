-- case: overwrite a table without partitions
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a'), (2, 'b');
insert overwrite t values (3, 'c');
select id, name from t;

-- case: overwrite a partitioned table
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
insert overwrite t values (3, 'x');
select id, dt from t order by id;

-- case: overwrite one partition
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
insert overwrite t partition (dt = 'x') select 3;
select id, dt from t order by id;

-- case: overwrite a dynamic partition
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
insert overwrite t partition (dt) select 3, 'x';
select id, dt from t order by id;

-- case: overwrite with hoodie.datasource.overwrite.mode dynamic
set hoodie.datasource.overwrite.mode = dynamic;
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
insert overwrite t values (3, 'x');
select id, dt from t order by id;

-- case: overwrite with spark.sql.sources.partitionOverwriteMode dynamic
set spark.sql.sources.partitionOverwriteMode = dynamic;
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
insert overwrite t values (3, 'x');
select id, dt from t order by id;

-- case: overwrite with doubles
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
insert overwrite t values (2, 'b', 1), (2, 'c', 2);
select id, name, ts from t order by name;

-- case: overwrite by no rows
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
insert overwrite t select id, name from t where false;
select id, name from t;

-- case: overwrite a partition by no rows
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
insert overwrite t partition (dt = 'x') select id from t where false;
select id, dt from t order by id;

-- case: overwrite a partition of a timestamp
create table t (id int, dt timestamp) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, timestamp'2024-01-01 10:00:00'), (2, timestamp'2024-01-02 10:00:00');
insert overwrite t partition (dt = '2024-01-01 10:00:00') select 3;
select id, dt from t order by id;

-- case: overwrite a partition of a decimal
create table t (id int, d decimal(10,2)) using {format} tblproperties (primaryKey = 'id') partitioned by (d);
insert into t values (1, 1.5), (2, 2.5);
insert overwrite t partition (d = 1.5) select 3;
select id, d from t order by id;

-- case: overwrite a partition of a date
create table t (id int, d date) using {format} tblproperties (primaryKey = 'id') partitioned by (d);
insert into t values (1, date'2024-01-01'), (2, date'2024-01-02');
insert overwrite t partition (d = '2024-01-01') select 3;
select id, d from t order by id;

-- case: overwrite a part of the partition columns
create table t (id int, a string, b string) using {format} tblproperties (primaryKey = 'id') partitioned by (a, b);
insert into t values (1, 'x', '1'), (2, 'x', '2'), (3, 'y', '1');
insert overwrite t partition (a = 'x', b) select 4, '1';
select id, a, b from t order by id;

-- case: overwrite with the operation insert_overwrite
set hoodie.datasource.write.operation = insert_overwrite;
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert overwrite t values (1, 'x'), (2, 'y');
insert overwrite t values (3, 'x');
select id, dt from t order by id;

-- case: overwrite with the operation insert_overwrite_table
set hoodie.datasource.write.operation = insert_overwrite_table;
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert overwrite t values (1, 'x'), (2, 'y');
insert overwrite t partition (dt = 'x') select 3;
select id, dt from t order by id;

-- case: overwrite with hoodie.datasource.overwrite.mode static
set hoodie.datasource.overwrite.mode = static;
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
insert overwrite t values (3, 'x');
select id, dt from t order by id;

-- case: overwrite a partition that is not there
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x');
insert overwrite t partition (dt = 'y') select 2;
select id, dt from t order by id;

-- case: overwrite a table from itself
create table t (id int, v int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 1), (2, 2);
insert overwrite t select id, v + 1 from t where id = 1;
select id, v from t;

-- case: overwrite twice and travel back
create table t (id int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1);
let first = select max(_hoodie_commit_time) from t;
insert overwrite t values (2);
insert overwrite t values (3);
select id from t;
select id from t timestamp as of '{first}';

-- case: overwrite a table without a key
create table t (id int, name string) using {format};
insert into t values (1, 'a'), (1, 'a');
insert overwrite t values (2, 'b');
select id, name from t;
