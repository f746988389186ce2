-- MERGE with all clauses; another engine gives the same rows, but where only keys refuse something.

CREATE TABLE rides (id BIGINT, city STRING, fare DOUBLE, note STRING)
USING pyhudi PARTITIONED BY (city) TBLPROPERTIES (primaryKey = 'id');
-- expect ok

INSERT INTO rides (id, city, fare, note) VALUES
  (1, 'Oslo', 1.0, 'a'), (2, 'Oslo', 2.0, 'b'), (3, 'Lima', 3.0, 'c'), (4, 'Lima', 4.0, null),
  (5, null, 5.0, 'e');
-- expect ok

CREATE TABLE news (id BIGINT, city STRING, fare DOUBLE, note STRING) USING pyhudi;
-- expect ok

INSERT INTO news VALUES
  (1, 'Oslo', 10.0, 'A'), (3, 'Lima', 30.0, 'gone'), (6, 'Rome', 60.0, 'F'), (7, null, 70.0, null);
-- expect ok

MERGE INTO rides t USING news s ON t.id = s.id
WHEN MATCHED AND s.note = 'gone' THEN DELETE
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *;
-- expect ok

SELECT id, city, fare, note FROM rides;
-- expect rows
-- 1 | Oslo | 10.0 | A
-- 2 | Oslo | 2.0 | b
-- 4 | Lima | 4.0 | NULL
-- 5 | NULL | 5.0 | e
-- 6 | Rome | 60.0 | F
-- 7 | NULL | 70.0 | NULL

MERGE INTO rides t USING news s ON t.id = s.id
WHEN MATCHED AND t.fare > 50 THEN UPDATE SET fare = t.fare + s.fare, note = concat(t.note, s.note)
WHEN NOT MATCHED AND s.note != 'gone' THEN INSERT (id, city, fare, note)
  VALUES (s.id, s.city, s.fare, s.note);
-- expect ok

SELECT id, fare, note FROM rides;
-- expect rows
-- 1 | 10.0 | A
-- 2 | 2.0 | b
-- 4 | 4.0 | NULL
-- 5 | 5.0 | e
-- 6 | 120.0 | FF
-- 7 | 140.0 | NULL

MERGE INTO rides t USING news s ON t.id = s.id
WHEN NOT MATCHED BY SOURCE THEN UPDATE SET note = 'left';
-- expect ok

SELECT id, note FROM rides;
-- expect rows
-- 1 | A
-- 2 | left
-- 4 | left
-- 5 | left
-- 6 | FF
-- 7 | NULL

MERGE INTO rides t USING (SELECT id, fare FROM news WHERE id > 1) s ON t.id = s.id
WHEN NOT MATCHED BY SOURCE AND t.city = 'Oslo' AND t.fare < 5 THEN DELETE
WHEN NOT MATCHED BY SOURCE AND t.city = 'Oslo' THEN UPDATE SET fare = 0
WHEN NOT MATCHED BY SOURCE AND t.city IS NULL THEN DELETE;
-- expect ok

SELECT id, fare FROM rides;
-- expect rows
-- 1 | 0.0
-- 4 | 4.0
-- 6 | 120.0
-- 7 | 140.0

MERGE INTO rides t USING news s ON t.id = s.id WHEN MATCHED THEN DELETE;
-- expect ok

SELECT id, city FROM rides;
-- expect rows
-- 4 | Lima

MERGE INTO rides t USING news s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *;
-- expect ok

SELECT id, city, fare FROM rides;
-- expect rows
-- 1 | Oslo | 10.0
-- 3 | Lima | 30.0
-- 4 | Lima | 4.0
-- 6 | Rome | 60.0
-- 7 | NULL | 70.0

MERGE INTO rides t USING (SELECT 8L AS id, 'Bonn' AS city) s ON t.id = s.id
WHEN NOT MATCHED THEN INSERT (id, city, fare, note) VALUES (s.id, s.city, null, 'from values');
-- expect ok

MERGE INTO rides t USING (SELECT * FROM VALUES (8L, 'Oslo'), (4L, 'Rome') AS v(id, city)) s
ON t.id = s.id WHEN MATCHED THEN UPDATE SET city = s.city;
-- expect ok

SELECT id, city, note FROM rides;
-- expect rows
-- 1 | Oslo | A
-- 3 | Lima | gone
-- 4 | Rome | left
-- 6 | Rome | F
-- 7 | NULL | NULL
-- 8 | Oslo | from values

WITH fresh AS (SELECT id, fare * 2 AS twice FROM news)
MERGE INTO rides t USING fresh s ON t.id = s.id AND s.twice > 100
WHEN MATCHED THEN UPDATE SET fare = s.twice;
-- expect ok

SELECT id, fare FROM rides WHERE id IN (1, 6, 7);
-- expect rows
-- 1 | 10.0
-- 6 | 120.0
-- 7 | 140.0

MERGE INTO rides t USING rides s ON t.id = s.id AND s.city = 'Rome'
WHEN MATCHED THEN UPDATE SET note = concat('self ', s.id);
-- expect ok

MERGE INTO rides t USING news s ON t.city = s.city AND t.id != s.id AND s.id = 6
WHEN MATCHED THEN UPDATE SET note = 'by city';
-- expect ok

SELECT id, note FROM rides WHERE city = 'Rome';
-- expect rows
-- 4 | by city
-- 6 | self 6

MERGE INTO rides t USING news s ON t.id <=> s.id AND t.city <=> s.city
WHEN MATCHED AND t.city IS NULL THEN UPDATE SET note = 'null city';
-- expect ok

SELECT id, note FROM rides WHERE city IS NULL;
-- expect rows
-- 7 | null city

MERGE INTO rides t USING (SELECT 77L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE;
-- expect ok

MERGE INTO rides t USING (SELECT id FROM news WHERE false) s ON t.id = s.id
WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, city, fare, note)
  VALUES (s.id, 'x', 1, 'x');
-- expect ok

SELECT count(*) FROM rides;
-- expect rows
-- 6

MERGE INTO rides t USING (SELECT 9L AS id, 9.0D AS fare) s ON false
WHEN NOT MATCHED THEN INSERT (id, city, fare, note) VALUES (s.id, null, s.fare, DEFAULT);
-- expect ok

MERGE INTO rides t USING (SELECT 9L AS id) s ON t.id = s.id
WHEN MATCHED AND t.fare < 0 THEN DELETE
WHEN MATCHED AND t.fare = 9 THEN UPDATE SET fare = 10
WHEN MATCHED THEN UPDATE SET fare = 11;
-- expect ok

MERGE INTO rides t USING news s ON t.id = s.id
WHEN MATCHED AND t.id = 1 THEN DELETE
WHEN NOT MATCHED BY SOURCE AND t.id = 8 THEN DELETE
WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN UPDATE SET fare = 44;
-- expect ok

SELECT id, city, fare FROM rides;
-- expect rows
-- 3 | Lima | 30.0
-- 4 | Rome | 44.0
-- 6 | Rome | 120.0
-- 7 | NULL | 140.0
-- 9 | NULL | 10.0

MERGE INTO rides t USING (SELECT 3L AS id, 'twice' AS note UNION ALL SELECT 3L, 'twice') s
ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = s.note;
-- expect error MERGE

MERGE INTO rides t USING (SELECT 3L AS id, 'none' AS note UNION ALL SELECT 3L, 'one') s
ON t.id = s.id WHEN MATCHED AND s.note = 'one' THEN UPDATE SET note = s.note;
-- expect error MERGE

-- pyhudi only: other formats have no keys
MERGE INTO rides t USING (SELECT 3L AS id) s ON t.id = s.id + 100
WHEN NOT MATCHED THEN INSERT (id, city, fare, note) VALUES (s.id, 'Lima', 0, 'n');
-- expect error keys that the table has already: 3

-- pyhudi only: other formats have no keys
MERGE INTO rides t USING (SELECT 3L AS id) s ON t.id = s.id + 100
WHEN NOT MATCHED THEN INSERT (id, city, fare, note) VALUES (s.id, 'elsewhere', 0, 'n');
-- expect ok

-- pyhudi only: other formats have no keys
DELETE FROM rides WHERE city = 'elsewhere';
-- expect ok

-- pyhudi only: other formats have no keys
MERGE INTO rides t USING (SELECT 20L AS id UNION ALL SELECT 20L) s ON t.id = s.id
WHEN NOT MATCHED THEN INSERT (id, city, fare, note) VALUES (s.id, 'Lima', 0, 'n');
-- expect error more than one row with the key '20'

-- pyhudi only: other formats have no keys
MERGE INTO rides t USING (SELECT 3L AS id) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET id = 33;
-- expect error would change record keys, such as '3' to '33'

MERGE INTO rides t USING news s ON t.id = s.id WHEN MATCHED THEN UPDATE SET nothing = 1;
-- expect error nothing

MERGE INTO rides t USING news s ON t.id = s.id WHEN MATCHED THEN UPDATE SET fare = 1, fare = 2;
-- expect error fare

MERGE INTO rides t USING news s ON t.id = s.id WHEN NOT MATCHED THEN UPDATE SET fare = 1;
-- expect error UPDATE

MERGE INTO rides t USING news s ON t.id = s.id
WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *;
-- expect error last

MERGE INTO nowhere t USING news s ON t.id = s.id WHEN MATCHED THEN DELETE;
-- expect error nowhere

SELECT count(*), count(DISTINCT id) FROM rides;
-- expect rows
-- 5 | 5

MERGE INTO rides t USING (SELECT 3L AS id UNION ALL SELECT 3L) s ON t.id = s.id
WHEN MATCHED THEN DELETE;
-- expect ok

SELECT id FROM rides;
-- expect rows
-- 4
-- 6
-- 7
-- 9
