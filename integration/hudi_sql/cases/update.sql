-- case: update by key
create table t (id int, name string, price double, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 10, 1), (2, 'b', 20, 1);
update t set price = 11 where id = 1;
select id, name, price, ts from t order by id;

-- case: update of all rows, by an expression
create table t (id int, price double) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 10), (2, 20);
update t set price = price * 2;
select id, price from t order by id;

-- case: update of a partitioned table by another column
create table t (id int, name string, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'a', 'x'), (2, 'a', 'y');
update t set name = 'z' where name = 'a' and dt = 'x';
select id, name, dt from t order by id;

-- case: update of the key
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
update t set id = 2 where id = 1;
select id, name from t;

-- case: update of the partition column
create table t (id int, name string, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 'a', 'x');
-- differs: The row moves to its new partition in one commit.
update t set dt = 'y' where id = 1;
-- differs: The row moves to its new partition in one commit.
select id, name, dt from t;

-- case: update of a table without a key
create table t (id int, name string) using {format};
insert into t values (1, 'a'), (2, 'b');
update t set name = 'z' where id = 1;
select id, name from t order by id;

-- case: update to a smaller ordering value
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 5);
update t set name = 'b', ts = 1 where id = 1;
select id, name, ts from t;

-- case: update of a field of a struct
create table t (id int, s struct<a:int,b:int>) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, struct(1, 2));
-- differs: A field of a struct can be set.
update t set s.a = 9 where id = 1;
-- differs: A field of a struct can be set.
select id, s from t;

-- case: update by a subquery
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a'), (2, 'b');
update t set name = 'z' where id in (select 2);
select id, name from t order by id;

-- case: update that finds nothing
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
update t set name = 'z' where id = 7;
select id, name from t order by id;

-- case: update of several columns
create table t (id int, a int, b string, c double) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 1, 'x', 1.5), (2, 2, 'y', 2.5);
update t set a = a + 1, b = concat(b, '!'), c = null where id = 2;
select id, a, b, c from t order by id;

-- case: update of rows of two partitions
create table t (id int, v int, dt string) using {format} tblproperties (primaryKey = 'id') partitioned by (dt);
insert into t values (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'y');
update t set v = 9 where v = 1;
select id, v, dt from t order by id;

-- case: update with an alias
create table t (id int, v int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 1);
update t as x set x.v = 5 where x.id = 1;
select id, v from t;

-- case: update of a column that there is not
create table t (id int, v int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 1);
update t set w = 5;

-- case: update with a cast
create table t (id int, price double, d date) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 1.5, date'2024-01-01');
update t set price = 3, d = date'2024-02-02' where id = 1;
select id, price, d from t;
