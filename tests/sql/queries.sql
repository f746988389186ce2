-- Joins, groups, sub-queries, windows, limits and hidden columns over two small tables.

CREATE TABLE trips (id BIGINT, city STRING, fare DOUBLE, driver INT) USING pyhudi
PARTITIONED BY (city) TBLPROPERTIES (primaryKey = 'id');
-- expect ok

INSERT INTO trips (id, city, fare, driver) VALUES
  (1, 'Oslo', 10.0, 1), (2, 'Oslo', 20.0, 2), (3, 'Lima', 30.0, 1), (4, 'Lima', 40.0, null),
  (5, null, 50.0, 9);
-- expect ok

CREATE TABLE drivers (driver INT, name STRING) USING pyhudi TBLPROPERTIES (primaryKey = 'driver');
-- expect ok

INSERT INTO drivers VALUES (1, 'Ada'), (2, 'Bob'), (3, 'Cyd');
-- expect ok

SELECT count(*), count(driver), sum(fare), min(fare), max(fare), avg(fare) FROM trips;
-- expect rows
-- 5 | 4 | 150.0 | 10.0 | 50.0 | 30.0

SELECT count(*) FROM trips WHERE city = 'Oslo';
-- expect rows
-- 2

SELECT count(*) FROM trips WHERE city IS NULL;
-- expect rows
-- 1

SELECT min(id), max(id), count(id) FROM trips;
-- expect rows
-- 1 | 5 | 5

SELECT min(city), max(city) FROM trips;
-- expect rows
-- Lima | Oslo

SELECT max(id) FROM trips WHERE city = 'Lima';
-- expect rows
-- 4

SELECT min(driver), max(driver), count(driver) FROM trips WHERE city = 'Lima';
-- expect rows
-- 1 | 1 | 1

SELECT max(id), max(fare) FROM trips WHERE city = 'nowhere';
-- expect rows
-- NULL | NULL

SELECT count(*) FROM trips WHERE city = 'nowhere';
-- expect rows
-- 0

SELECT city, count(*), sum(fare) FROM trips GROUP BY city;
-- expect rows
-- Oslo | 2 | 30.0
-- Lima | 2 | 70.0
-- NULL | 1 | 50.0

SELECT city, max(id) AS last FROM trips GROUP BY city HAVING max(id) > 2;
-- expect rows
-- Lima | 4
-- NULL | 5

SELECT DISTINCT city FROM trips;
-- expect rows
-- Oslo
-- Lima
-- NULL

SELECT count(DISTINCT driver) FROM trips;
-- expect rows
-- 3

SELECT city, driver, sum(fare) FROM trips WHERE id < 4 GROUP BY ROLLUP (city, driver);
-- expect rows
-- NULL | NULL | 60.0
-- Oslo | NULL | 30.0
-- Oslo | 1 | 10.0
-- Oslo | 2 | 20.0
-- Lima | NULL | 30.0
-- Lima | 1 | 30.0

SELECT t.id, d.name FROM trips t JOIN drivers d ON t.driver = d.driver;
-- expect rows
-- 1 | Ada
-- 2 | Bob
-- 3 | Ada

SELECT t.id, d.name FROM trips t LEFT JOIN drivers d ON t.driver = d.driver;
-- expect rows
-- 1 | Ada
-- 2 | Bob
-- 3 | Ada
-- 4 | NULL
-- 5 | NULL

SELECT t.id, d.name FROM trips t RIGHT JOIN drivers d ON t.driver = d.driver;
-- expect rows
-- 1 | Ada
-- 3 | Ada
-- 2 | Bob
-- NULL | Cyd

SELECT t.id, d.name FROM trips t FULL JOIN drivers d ON t.driver = d.driver;
-- expect rows
-- 1 | Ada
-- 2 | Bob
-- 3 | Ada
-- 4 | NULL
-- 5 | NULL
-- NULL | Cyd

SELECT name FROM drivers d LEFT SEMI JOIN trips t ON t.driver = d.driver;
-- expect rows
-- Ada
-- Bob

SELECT name FROM drivers d LEFT ANTI JOIN trips t ON t.driver = d.driver;
-- expect rows
-- Cyd

SELECT count(*) FROM trips CROSS JOIN drivers;
-- expect rows
-- 15

SELECT a.id, b.id FROM trips a JOIN trips b ON a.city = b.city AND a.id < b.id;
-- expect rows
-- 1 | 2
-- 3 | 4

SELECT t.id FROM trips t JOIN (SELECT 'Lima' AS city) c ON t.city = c.city;
-- expect rows
-- 3
-- 4

SELECT id FROM trips WHERE driver IN (SELECT driver FROM drivers WHERE name < 'B');
-- expect rows
-- 1
-- 3

SELECT id FROM trips WHERE driver NOT IN (SELECT driver FROM drivers);
-- expect rows
-- 5

SELECT id FROM trips t WHERE EXISTS (SELECT 1 FROM drivers d WHERE d.driver = t.driver);
-- expect rows
-- 1
-- 2
-- 3

SELECT id FROM trips WHERE fare = (SELECT max(fare) FROM trips WHERE city = 'Lima');
-- expect rows
-- 4

SELECT id, (SELECT max(name) FROM drivers d WHERE d.driver = t.driver) AS name FROM trips t WHERE id < 3;
-- expect rows
-- 1 | Ada
-- 2 | Bob

WITH lima AS (SELECT * FROM trips WHERE city = 'Lima') SELECT id, fare FROM lima WHERE fare > 30;
-- expect rows
-- 4 | 40.0

SELECT id FROM trips WHERE city = 'Oslo' UNION ALL SELECT driver FROM drivers WHERE name = 'Cyd';
-- expect rows
-- 1
-- 2
-- 3

SELECT driver FROM trips INTERSECT SELECT driver FROM drivers;
-- expect rows
-- 1
-- 2

SELECT driver FROM drivers EXCEPT SELECT driver FROM trips;
-- expect rows
-- 3

SELECT id FROM trips ORDER BY fare DESC;
-- expect ordered rows
-- 5
-- 4
-- 3
-- 2
-- 1

SELECT id FROM trips ORDER BY city NULLS LAST, id DESC LIMIT 3;
-- expect ordered rows
-- 4
-- 3
-- 2

SELECT id FROM trips ORDER BY id LIMIT 2 OFFSET 1;
-- expect ordered rows
-- 2
-- 3

SELECT count(*) FROM (SELECT id FROM trips LIMIT 2);
-- expect rows
-- 2

SELECT id FROM trips WHERE city = 'Oslo' AND fare > 10 LIMIT 5;
-- expect rows
-- 2

SELECT id FROM trips LIMIT 0;
-- expect rows

SELECT id, row_number() OVER (PARTITION BY city ORDER BY fare DESC) AS place FROM trips;
-- expect rows
-- 2 | 1
-- 1 | 2
-- 4 | 1
-- 3 | 2
-- 5 | 1

SELECT * FROM (SELECT city, fare FROM trips) PIVOT (sum(fare) FOR city IN ('Oslo', 'Lima'));
-- expect rows
-- 30.0 | 70.0

SELECT id, city, fare, driver FROM trips WHERE id = 3;
-- expect rows
-- 3 | Lima | 30.0 | 1

-- pyhudi only: columns and times of Hudi's own
SELECT id, _hoodie_record_key, _hoodie_partition_path FROM trips WHERE city = 'Lima';
-- expect rows
-- 3 | 3 | city=Lima
-- 4 | 4 | city=Lima

-- pyhudi only: columns and times of Hudi's own
SELECT count(DISTINCT _hoodie_commit_time), count(DISTINCT _hoodie_commit_seqno) FROM trips;
-- expect rows
-- 1 | 5

-- pyhudi only: columns and times of Hudi's own
SELECT count(*) FROM trips WHERE endswith(_file, _hoodie_file_name) AND contains(_file, '/trips/');
-- expect rows
-- 5

-- pyhudi only: columns and times of Hudi's own
SELECT id FROM trips WHERE _hoodie_record_key = '2';
-- expect rows
-- 2

-- pyhudi only: columns and times of Hudi's own
SELECT _hoodie_partition_path FROM trips WHERE city IS NULL;
-- expect rows
-- city=__HIVE_DEFAULT_PARTITION__

CREATE OR REPLACE TEMPORARY VIEW cheap AS SELECT id, fare FROM trips WHERE fare < 25;
-- expect ok

INSERT INTO trips (id, city, fare, driver) VALUES (6, 'Rome', 6.0, 3);
-- expect ok

SELECT * FROM cheap;
-- expect rows
-- 1 | 10.0
-- 2 | 20.0
-- 6 | 6.0

DROP VIEW cheap;
-- expect ok

CACHE TABLE trips;
-- expect ok

INSERT INTO trips (id, city, fare, driver) VALUES (7, 'Rome', 7.0, 3);
-- expect ok

SELECT id FROM trips WHERE city = 'Rome';
-- expect rows
-- 6
-- 7

UNCACHE TABLE trips;
-- expect ok

SELECT id FROM nowhere;
-- expect error nowhere

SELECT id, sum(fare) FROM trips;
-- expect error GROUP BY

-- pyhudi only: columns and times of Hudi's own
SELECT * FROM trips VERSION AS OF '19990101000000000';
-- expect error [HISTORY_EXPIRED]
