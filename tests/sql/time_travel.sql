-- The table as of an instant or a time, in queries, joins and writes.

CREATE TABLE rides (id INT, fare DOUBLE) USING pyhudi TBLPROPERTIES (primaryKey = 'id');
-- expect ok

INSERT INTO rides VALUES (1, 1.0), (2, 2.0);
-- expect ok

SELECT max(_hoodie_commit_time) FROM rides;
-- expect value first

UPDATE rides SET fare = 20 WHERE id = 2;
-- expect ok

SELECT max(_hoodie_commit_time) FROM rides;
-- expect value second

SELECT regexp_replace('${second}', '(....)(..)(..)(..)(..)(..)(...)', '$1-$2-$3 $4:$5:$6.$7');
-- expect value second_time

ALTER TABLE rides ADD COLUMN tip DOUBLE;
-- expect ok

DELETE FROM rides WHERE id = 1;
-- expect ok

INSERT INTO rides VALUES (3, 3.0, 0.5);
-- expect rows of rides
-- 2 | 20.0 | NULL
-- 3 | 3.0 | 0.5

SELECT * FROM rides VERSION AS OF '${first}';
-- expect rows
-- 1 | 1.0
-- 2 | 2.0

SELECT * FROM rides FOR VERSION AS OF '${second}';
-- expect rows
-- 1 | 1.0
-- 2 | 20.0

SELECT * FROM rides TIMESTAMP AS OF '${second_time}';
-- expect rows
-- 1 | 1.0
-- 2 | 20.0

SELECT * FROM rides FOR SYSTEM_TIME AS OF TIMESTAMP'${second_time}';
-- expect rows
-- 1 | 1.0
-- 2 | 20.0

SELECT id FROM rides TIMESTAMP AS OF current_timestamp();
-- expect rows
-- 2
-- 3

SELECT id FROM rides TIMESTAMP AS OF '2999-01-01';
-- expect rows
-- 2
-- 3

SELECT count(*) FROM rides VERSION AS OF '${first}';
-- expect rows
-- 2

SELECT max(fare) FROM rides VERSION AS OF '${first}';
-- expect rows
-- 2.0

SELECT id FROM rides VERSION AS OF '${first}' WHERE fare > 1;
-- expect rows
-- 2

SELECT n.id, o.fare AS was, n.fare FROM rides n
LEFT JOIN (SELECT * FROM rides VERSION AS OF '${first}') o ON n.id = o.id;
-- expect rows
-- 2 | 2.0 | 20.0
-- 3 | NULL | 3.0

SELECT id FROM rides VERSION AS OF '${second}' EXCEPT SELECT id FROM rides;
-- expect rows
-- 1

SELECT id FROM pyhudi.`/nowhere/at/all` VERSION AS OF '${first}';
-- expect error [TABLE_NOT_FOUND]

SELECT id FROM rides VERSION AS OF 'yesterday';
-- expect error [CONFIG_ERROR]

SELECT id FROM rides TIMESTAMP AS OF '1999-01-01';
-- expect error [HISTORY_EXPIRED]

SELECT id, tip FROM rides VERSION AS OF '${first}';
-- expect error tip

INSERT INTO rides SELECT id, fare, 1.0D FROM rides VERSION AS OF '${first}' WHERE id = 1;
-- expect rows of rides
-- 1 | 1.0 | 1.0
-- 2 | 20.0 | NULL
-- 3 | 3.0 | 0.5

MERGE INTO rides t USING (SELECT * FROM rides VERSION AS OF '${first}') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET fare = s.fare;
-- expect rows of rides
-- 1 | 1.0 | 1.0
-- 2 | 2.0 | NULL
-- 3 | 3.0 | 0.5

CREATE TABLE past USING pyhudi AS SELECT * FROM rides VERSION AS OF '${second}';
-- expect rows of past
-- 1 | 1.0
-- 2 | 20.0
