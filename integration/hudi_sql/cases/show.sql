-- case: show tables
create table t (id int) using {format} tblproperties (primaryKey = 'id');
show tables like 't';

-- case: show columns
create table t (id int, name string, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
show columns in t;

-- case: describe
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
describe t;

-- case: refresh
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
refresh table t;
select id, name from t;

-- case: a view
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
create temporary view v as select id, name from t;
select * from v;
drop view v;

-- case: a subquery and a join of two tables
create table a (id int, v int) using {format} tblproperties (primaryKey = 'id');
create table b (id int, w int) using {format} tblproperties (primaryKey = 'id');
insert into a values (1, 1), (2, 2);
insert into b values (2, 20), (3, 30);
select a.id, v, w from a join b on a.id = b.id;
select id from a where id in (select id from b);

-- case: meta columns by name
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x');
select _hoodie_record_key, _hoodie_partition_path, length(_hoodie_commit_time) from t;
