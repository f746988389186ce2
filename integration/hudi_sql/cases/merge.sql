-- case: merge that updates and inserts
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1), (2, 'b', 1);
merge into t using (select * from values (1, 'x', 2L), (3, 'z', 2L) as v(id, name, ts)) s on t.id = s.id when matched then update set * when not matched then insert *;
select id, name, ts from t order by id;

-- case: merge that deletes
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1), (2, 'b', 1);
merge into t using (select 1 as id, 'x' as name, 2L as ts) s on t.id = s.id when matched then delete;
select id, name, ts from t order by id;

-- case: merge with conditions at the clauses
create table t (id int, name string, price double, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 10, 1), (2, 'b', 20, 1);
merge into t using (select * from values (1, 'x', 0D, 2L), (2, 'y', 5D, 2L), (3, 'z', 0D, 2L), (4, 'w', 1D, 2L) as v(id, name, price, ts)) s on t.id = s.id when matched and s.price = 0 then delete when matched then update set name = s.name, ts = s.ts when not matched and s.price > 0 then insert *;
-- differs: The first clause whose condition holds counts, as in SQL; Hudi tries the updates before the deletes, in whatever order they stand.
select id, name, price, ts from t order by id;

-- case: merge with a smaller ordering value
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 5);
merge into t using (select 1 as id, 'x' as name, 2L as ts) s on t.id = s.id when matched then update set *;
select id, name, ts from t order by id;

-- case: merge with a further condition in ON
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1), (2, 'b', 1);
merge into t using (select * from values (1, 'x', 2L), (2, 'y', 2L) as v(id, name, ts)) s on t.id = s.id and t.name = 'a' when matched then update set *;
-- differs: Rows for which ON is false do not match, as in SQL; Hudi matches by the key alone here.
select id, name, ts from t order by id;

-- case: merge with a further condition in ON that inserts
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1), (2, 'b', 1);
-- differs: A source row without a match would be a second row of its key: an error that names the key. Hudi takes it for an update of the row, whatever ON says.
merge into t using (select * from values (1, 'x', 2L), (2, 'y', 2L) as v(id, name, ts)) s on t.id = s.id and t.name = 'a' when matched then update set * when not matched then insert *;
-- differs: A source row without a match would be a second row of its key: an error that names the key. Hudi takes it for an update of the row, whatever ON says.
select id, name, ts from t order by id, name;

-- case: merge by a column that is not the key
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
merge into t using (select 1 as id, 'a' as name, 2L as ts) s on t.name = s.name when matched then update set *;
select id, name, ts from t order by id;

-- case: merge whose source names the key otherwise
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
-- differs: The source's columns may have any names; Hudi wants the key's name among them.
merge into t using (select 1 as sid, 'x' as sname, 2L as sts) s on t.id = s.sid when matched then update set name = s.sname, ts = s.sts when not matched then insert (id, name, ts) values (s.sid, s.sname, s.sts);
-- differs: The source's columns may have any names; Hudi wants the key's name among them.
select id, name, ts from t order by id;

-- case: merge with an update of some columns
create table t (id int, name string, price double, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 10, 1);
merge into t using (select 1 as id, 5 as add, 2L as ts) s on t.id = s.id when matched then update set price = t.price + s.add, ts = s.ts;
select id, name, price, ts from t order by id;

-- case: merge with an insert of some columns
create table t (id int, name string, price double, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 10, 1);
merge into t using (select 2 as id, 'b' as name, 2L as ts) s on t.id = s.id when not matched then insert (id, name, ts) values (s.id, s.name, s.ts);
select id, name, price, ts from t order by id;

-- case: merge of two source rows with one key
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
-- differs: Two source rows for one row of the table are an error in SQL; Hudi lets the larger ordering value win.
merge into t using (select * from values (1, 'x', 2L), (1, 'y', 3L) as v(id, name, ts)) s on t.id = s.id when matched then update set *;
-- differs: The statement before was refused.
select id, name, ts from t order by id;

-- case: merge into a partitioned table
create table t (id int, name string, ts bigint, dt string) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts') partitioned by (dt);
insert into t values (1, 'a', 1, 'p'), (2, 'b', 1, 'q');
merge into t using (select * from values (1, 'x', 2L, 'p'), (3, 'z', 2L, 'q') as v(id, name, ts, dt)) s on t.id = s.id when matched then update set * when not matched then insert *;
select id, name, ts, dt from t order by id;

-- case: merge from another table with an alias
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
create table s (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
insert into s values (1, 'x', 2), (2, 'y', 2);
merge into t as target using s as source on target.id = source.id when matched then update set * when not matched then insert *;
select id, name, ts from t order by id;

-- case: merge into a table without a key
create table t (id int, name string) using {format};
insert into t values (1, 'a'), (2, 'b');
merge into t using (select 1 as id, 'x' as name) s on t.id = s.id when matched then update set name = s.name;
select id, name from t order by id;

-- case: merge into a table without an ordering column
create table t (id int, name string) using {format} tblproperties (primaryKey = 'id');
insert into t values (1, 'a');
merge into t using (select * from values (1, 'x'), (2, 'y') as v(id, name)) s on t.id = s.id when matched then update set * when not matched then insert *;
select id, name from t order by id;

-- case: merge with columns of the source in another order
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
merge into t using (select 2L as ts, 'x' as name, 1 as id) s on t.id = s.id when matched then update set *;
select id, name, ts from t order by id;

-- case: merge with an update of the key
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
-- differs: A key identifies its row, so an update cannot change it: an error that names the keys.
merge into t using (select 1 as id, 2L as ts) s on t.id = s.id when matched then update set id = 7, ts = s.ts;
-- differs: A key identifies its row, so an update cannot change it: an error that names the keys.
select id, name, ts from t order by id;

-- case: merge without the ordering column in the update
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 'a', 1);
-- differs: The ordering value may stay as it is: the row keeps the one that it has.
merge into t using (select 1 as id, 'x' as name) s on t.id = s.id when matched then update set name = s.name;
-- differs: The ordering value may stay as it is: the row keeps the one that it has.
select id, name, ts from t order by id;

-- case: merge by key and partition
create table t (id int, v int, ts bigint, dt string) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts') partitioned by (dt);
insert into t values (1, 1, 1, 'p'), (2, 1, 1, 'q');
merge into t using (select * from values (1, 5, 2L, 'p'), (2, 5, 2L, 'q'), (3, 5, 2L, 'r') as v(id, v, ts, dt)) s on t.id = s.id and t.dt = s.dt when matched then update set * when not matched then insert *;
select id, v, ts, dt from t order by id;

-- case: merge with a condition of the source in ON
create table t (id int, v int, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 1, 1), (2, 1, 1);
-- differs: ON may have any condition, as in SQL; Hudi takes only equalities of the key.
merge into t using (select * from values (1, 5, 2L), (2, 6, 2L) as v(id, v, ts)) s on t.id = s.id and s.v > 5 when matched then update set *;
-- differs: ON may have any condition, as in SQL; Hudi takes only equalities of the key.
select id, v, ts from t order by id;

-- case: merge with two key columns
create table t (a int, b string, v int, ts bigint) using {format} tblproperties (primaryKey = 'a,b', preCombineField = 'ts');
insert into t values (1, 'x', 1, 1), (1, 'y', 1, 1);
merge into t using (select * from values (1, 'x', 5, 2L), (2, 'x', 5, 2L) as v(a, b, v, ts)) s on t.a = s.a and t.b = s.b when matched then update set * when not matched then insert *;
select a, b, v, ts from t order by a, b;

-- case: merge that only inserts
create table t (id int, v int, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 1, 1);
merge into t using (select * from values (1, 5, 2L), (2, 5, 2L) as v(id, v, ts)) s on t.id = s.id when not matched then insert *;
select id, v, ts from t order by id;

-- case: merge with expressions in the insert
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
merge into t using (select 1 as id, 'x' as name, 1L as ts) s on t.id = s.id when not matched then insert (id, name, ts) values (s.id, upper(s.name), s.ts + 1);
select id, name, ts from t;

-- case: merge with two inserts on conditions
create table t (id int, name string, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
merge into t using (select * from values (1, 'x', 1L), (2, 'y', 1L), (3, 'z', 1L) as v(id, name, ts)) s on t.id = s.id when not matched and s.id = 1 then insert (id, name, ts) values (s.id, 'one', s.ts) when not matched and s.id = 2 then insert *;
select id, name, ts from t order by id;

-- case: merge of an empty source
create table t (id int, v int, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 1, 1);
merge into t using (select 1 as id, 1 as v, 1L as ts where false) s on t.id = s.id when matched then delete;
select id, v, ts from t;

-- case: merge with a cast of the source's types
create table t (id int, price double, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 1.5, 1);
-- differs: The source's types are cast as in an INSERT; Hudi wants the ordering column's own type.
merge into t using (select 1 as id, 3 as price, 2 as ts) s on t.id = s.id when matched then update set *;
-- differs: The source's types are cast as in an INSERT; Hudi wants the ordering column's own type.
select id, price, ts from t;

-- case: merge when not matched by source
create table t (id int, v int, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 1, 1), (2, 1, 1);
-- differs: The clause needs no column of the source but the key; Hudi wants the ordering column too.
merge into t using (select 1 as id) s on t.id = s.id when not matched by source then delete;
-- differs: The clause needs no column of the source but the key; Hudi wants the ordering column too.
select id, v, ts from t;

-- case: merge with further columns in the source
create table t (id int, v int, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 1, 1);
merge into t using (select 1 as id, 5 as v, 2L as ts, 'u' as op) s on t.id = s.id when matched and s.op = 'd' then delete when matched then update set * when not matched then insert *;
select id, v, ts from t;

-- case: merge a delete flag of the source
create table t (id int, v int, ts bigint) using {format} tblproperties (primaryKey = 'id', preCombineField = 'ts');
insert into t values (1, 1, 1), (2, 2, 1);
merge into t using (select * from values (1, 5, 2L, true), (2, 6, 2L, false), (3, 7, 2L, true) as v(id, v, ts, gone)) s on t.id = s.id when matched and s.gone then delete when matched then update set v = s.v, ts = s.ts when not matched and not s.gone then insert (id, v, ts) values (s.id, s.v, s.ts);
-- differs: The first clause whose condition holds counts, as in SQL; Hudi tries the updates before the deletes, in whatever order they stand.
select id, v, ts from t order by id;
