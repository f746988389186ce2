-- case: delete by key
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a'), (2, 'b');
delete from t where id = 1;
select id, name from t;

-- case: delete of all rows
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a'), (2, 'b');
delete from t;
select id, name from t;

-- case: delete of a partition by a condition
create table t (id int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
delete from t where dt = 'x';
select id, dt from t;

-- case: delete of a table without a key
create table t (id int, name string) using {format};
insert into t values (1, 'a'), (2, 'b');
delete from t where id = 1;
select id, name from t;

-- case: delete by a subquery
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a'), (2, 'b');
delete from t where id in (select 1);
select id, name from t;

-- case: delete with an ordering column
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 5), (2, 'b', 5);
delete from t where name = 'a';
insert into t values (1, 'c', 1);
select id, name, ts from t order by id;

-- case: delete of rows of two partitions
create table t (id int, v int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'y');
delete from t where v = 1;
select id, v, dt from t;

-- case: delete that finds nothing
create table t (id int, v int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 1);
delete from t where id = 5;
select id, v from t;

-- case: delete with an alias
create table t (id int, v int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 1), (2, 2);
delete from t as x where x.v > 1;
select id, v from t;

-- case: delete and insert again
create table t (id int, v int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 1);
delete from t where id = 1;
insert into t values (1, 2);
select id, v from t;
