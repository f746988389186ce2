-- Tables with a key and an ordering column: what Hudi's rules make of INSERT, UPDATE and MERGE.
-- An INSERT keeps doubles, unless it is set to upsert.

CREATE TABLE trips (id INT, name STRING, ts BIGINT, dt STRING) USING pyhudi PARTITIONED BY (dt)
TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'cow');
-- expect ok

SET hoodie.spark.sql.insert.into.operation = upsert;
-- expect ok

INSERT INTO trips VALUES (1, 'a', 5, 'x'), (2, 'b', 5, 'y'), (3, 'c', 5, 'x');
-- expect rows of trips
-- 1 | a | 5 | x
-- 2 | b | 5 | y
-- 3 | c | 5 | x

INSERT INTO trips VALUES (1, 'newer', 6, 'x'), (2, 'older', 4, 'y'), (3, 'same', 5, 'x');
-- expect rows of trips
-- 1 | newer | 6 | x
-- 2 | b | 5 | y
-- 3 | same | 5 | x

INSERT INTO trips VALUES (4, 'low', 1, 'x'), (4, 'high', 3, 'x'), (4, 'middle', 2, 'x');
-- expect rows of trips
-- 1 | newer | 6 | x
-- 2 | b | 5 | y
-- 3 | same | 5 | x
-- 4 | high | 3 | x

UPDATE trips SET name = 'late', ts = 1 WHERE id = 4;
-- expect ok

UPDATE trips SET name = 'kept ts' WHERE id = 2;
-- expect ok

SELECT id, name, ts FROM trips WHERE id IN (2, 4);
-- expect rows
-- 2 | kept ts | 5
-- 4 | high | 3

MERGE INTO trips t USING (SELECT * FROM VALUES (1, 'm', 5L, 'x'), (2, 'm', 7L, 'y'), (9, 'm', 0L, 'z')
  AS v(id, name, ts, dt)) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
-- expect rows of trips
-- 1 | newer | 6 | x
-- 2 | m | 7 | y
-- 3 | same | 5 | x
-- 4 | high | 3 | x
-- 9 | m | 0 | z

MERGE INTO trips t USING (SELECT 1 AS id, -1L AS ts) s ON t.id = s.id WHEN MATCHED THEN DELETE;
-- expect ok

DELETE FROM trips WHERE ts > 6;
-- expect rows of trips
-- 3 | same | 5 | x
-- 4 | high | 3 | x
-- 9 | m | 0 | z

INSERT INTO trips VALUES (1, 'again', 0, 'x');
-- expect ok

INSERT OVERWRITE trips PARTITION (dt = 'x') SELECT 3, 'smaller', 1L;
-- expect rows of trips
-- 3 | smaller | 1 | x
-- 9 | m | 0 | z

INSERT INTO trips VALUES (null, 'no key', 1, 'x');
-- expect error [INVALID_RECORD]

RESET hoodie.spark.sql.insert.into.operation;
-- expect ok

INSERT INTO trips VALUES (3, 'second', 1, 'x');
-- expect ok

SET hoodie.spark.sql.insert.into.operation = upsert;
-- expect ok

SELECT count(*), count(DISTINCT id) FROM trips;
-- expect rows
-- 3 | 2

CREATE TABLE newest (id INT, name STRING, ts BIGINT) USING pyhudi TBLPROPERTIES (primaryKey = 'id',
  preCombineField = 'ts', hoodie.record.merge.mode = 'COMMIT_TIME_ORDERING');
-- expect ok

INSERT INTO newest VALUES (1, 'a', 5);
-- expect ok

INSERT INTO newest VALUES (1, 'b', 1);
-- expect rows of newest
-- 1 | b | 1

UPDATE newest SET name = 'c', ts = 0;
-- expect rows of newest
-- 1 | c | 0

CREATE TABLE pairs (a STRING, b INT, v DOUBLE) USING pyhudi TBLPROPERTIES (primaryKey = 'a,b',
  preCombineField = 'v');
-- expect ok

INSERT INTO pairs VALUES ('x', 1, 1.0), ('x', 2, 1.0), ('y', 1, 1.0);
-- expect ok

INSERT INTO pairs VALUES ('x', 1, 2.0), ('x:1', 1, 1.0);
-- expect rows of pairs
-- x | 1 | 2.0
-- x | 2 | 1.0
-- y | 1 | 1.0
-- x:1 | 1 | 1.0

MERGE INTO pairs t USING (SELECT 'x' AS a, 2 AS b) s ON t.a = s.a AND t.b = s.b
WHEN MATCHED THEN UPDATE SET v = 9;
-- expect ok

UPDATE pairs SET b = 3 WHERE a = 'y';
-- expect error would change record keys

SELECT _hoodie_record_key, v FROM pairs WHERE a = 'x';
-- expect rows
-- a:x,b:1 | 2.0
-- a:x,b:2 | 9.0

RESET hoodie.spark.sql.insert.into.operation;
-- expect ok

CREATE TABLE events (id INT, note STRING) USING pyhudi;
-- expect ok

INSERT INTO events VALUES (1, 'a'), (1, 'a'), (null, 'b');
-- expect ok

INSERT INTO events VALUES (1, 'a');
-- expect ok

UPDATE events SET note = 'z' WHERE id IS NULL;
-- expect rows of events
-- 1 | a
-- 1 | a
-- 1 | a
-- NULL | z

UPDATE events SET id = id + 1 WHERE id = 1;
-- expect ok

DELETE FROM events WHERE note = 'z';
-- expect rows of events
-- 2 | a
-- 2 | a
-- 2 | a
