-- case: timestamp as of an instant of seventeen digits
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
let first = select max(_hoodie_commit_time) from t;
insert into t values (2, 'b');
select id, name from t timestamp as of '{first}' order by id;
select count(*) from t;

-- case: timestamp as of an instant of fourteen digits
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
select id, name from t timestamp as of '20991231235959' order by id;

-- case: timestamp as of a time
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
select id, name from t timestamp as of '2099-12-31 23:59:59' order by id;

-- case: timestamp as of a date
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
select id, name from t timestamp as of '2099-12-31' order by id;

-- case: version as of an instant
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
let first = select max(_hoodie_commit_time) from t;
insert into t values (2, 'b');
-- differs: VERSION AS OF takes an instant, as in other formats.
select id, name from t version as of '{first}' order by id;

-- case: timestamp as of words
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
select id, name from t timestamp as of 'yesterday' order by id;

-- case: a join with an older state
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
let first = select max(_hoodie_commit_time) from t;
update t set name = 'b' where id = 1;
select o.name, n.name from t timestamp as of '{first}' o join t n on o.id = n.id;

-- case: timestamp as of a time before the first commit
create table t (id int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1);
-- differs: Before its first commit there was no table: an error that names the first instant, so that a wrong year does not look like an empty table.
select id from t timestamp as of '2001-01-01 00:00:00';

-- case: timestamp as of an instant before a delete
create table t (id int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1), (2);
let first = select max(_hoodie_commit_time) from t;
delete from t where id = 1;
select id from t;
select id from t timestamp as of '{first}' order by id;

-- case: timestamp as of in a create as select
create table t (id int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1);
let first = select max(_hoodie_commit_time) from t;
insert into t values (2);
create table u using {format} as select * from t timestamp as of '{first}';
select id from u;

-- case: timestamp as of in a subquery
create table t (id int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1);
let first = select max(_hoodie_commit_time) from t;
insert into t values (2);
select id from t where id not in (select id from t timestamp as of '{first}');

-- case: timestamp as of with a function
create table t (id int) using {format} tblproperties (primaryKey = 'id');
insert into t values (1);
-- differs: The time may be any constant expression, as in Spark.
select id from t timestamp as of current_timestamp();
