-- case: show partitions
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, '2024-01-01'), (2, '2024-01-02');
show partitions t;
show partitions t partition (dt = '2024-01-01');

-- case: show partitions of two columns
create table t (id int, a string, b int) using {format} tblproperties (primaryKey = 'id') partitioned by (a, b);
insert into t values (1, 'x', 1), (2, 'x', 2), (3, 'y', 1);
show partitions t;
show partitions t partition (a = 'x');

-- case: show partitions with a null
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, null), (2, 'x');
show partitions t;

-- case: show partitions of a table without partitions
create table t (id int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1);
show partitions t;

-- case: show partitions where folders are not hive style
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id', 'hoodie.datasource.write.hive_style_partitioning' = 'false') partitioned by (dt);
insert into t values (1, '2024-01-01');
show partitions t;

-- case: drop a partition
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
alter table t drop partition (dt = 'x');
select id, dt from t;
show partitions t;

-- case: drop a partition that is not there
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
-- differs: A partition that is nowhere is an error, unless the statement says IF EXISTS: a misspelt value should not look like success.
alter table t drop partition (dt = 'z');
alter table t drop if exists partition (dt = 'z');
select id, dt from t order by id;

-- case: drop a part of the partition columns
create table t (id int, a string, b string) using {format} tblproperties (primaryKey = 'id') partitioned by (a, b);
insert into t values (1, 'x', '1'), (2, 'x', '2'), (3, 'y', '1');
alter table t drop partition (a = 'x');
select id, a, b from t order by id;

-- case: drop several partitions
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y'), (3, 'z');
alter table t drop partition (dt = 'x'), partition (dt = 'y');
select id, dt from t;

-- case: drop a partition of a table without partitions
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'x');
alter table t drop partition (dt = 'x');

-- case: truncate a table
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
truncate table t;
select id, dt from t;
insert into t values (3, 'x');
select id, dt from t;

-- case: truncate a partition
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
truncate table t partition (dt = 'x');
select id, dt from t;

-- case: truncate a part of the partition columns
create table t (id int, a string, b string) using {format} tblproperties (primaryKey = 'id') partitioned by (a, b);
insert into t values (1, 'x', '1'), (2, 'x', '2'), (3, 'y', '1');
truncate table t partition (a = 'x');
select id, a, b from t order by id;

-- case: truncate a partition that is not there
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
-- differs: A partition that is nowhere is an error, unless the statement says IF EXISTS: a misspelt value should not look like success.
truncate table t partition (dt = 'Olso');
select id, dt from t order by id;

-- case: add a partition
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x');
-- differs: A partition comes with its first row, and is not listed without one.
alter table t add partition (dt = 'y');
-- differs: A partition comes with its first row, and is not listed without one.
show partitions t;

-- case: add a partition that is there
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x');
alter table t add partition (dt = 'x');
alter table t add if not exists partition (dt = 'x');
