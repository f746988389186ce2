-- DELETE and TRUNCATE; another engine gives the same rows.

CREATE TABLE rides (id BIGINT, city STRING, hour INT, fare DOUBLE)
USING pyhudi PARTITIONED BY (city, hour) TBLPROPERTIES (primaryKey = 'id');
-- expect ok

INSERT INTO rides (id, city, hour, fare) VALUES
  (1, 'Oslo', 7, 1.0), (2, 'Oslo', 7, 2.0), (3, 'Oslo', 8, 3.0), (4, 'Lima', 7, 4.0),
  (5, 'Lima', 8, 5.0), (6, 'Lima', 8, null), (7, 'Rome', 9, 7.0), (8, 'Rome', 9, 8.0),
  (9, 'Bonn', 1, 9.0), (10, 'Bonn', 2, 10.0), (11, null, 3, 11.0), (12, 'Kyiv', null, 12.0);
-- expect ok

CREATE TABLE gone (id BIGINT, city STRING) USING pyhudi;
-- expect ok

INSERT INTO gone VALUES (7, 'Bonn'), (99, 'Kyiv');
-- expect ok

DELETE FROM rides WHERE id = 1;
-- expect ok

SELECT id FROM rides WHERE city = 'Oslo';
-- expect rows
-- 2
-- 3

DELETE FROM rides WHERE fare IS NULL;
-- expect ok

SELECT id FROM rides WHERE city = 'Lima';
-- expect rows
-- 4
-- 5

DELETE FROM rides WHERE fare = 77 OR id < 0;
-- expect ok

DELETE FROM rides WHERE id IN (SELECT id FROM gone);
-- expect ok

SELECT id FROM rides WHERE city = 'Rome';
-- expect rows
-- 8

DELETE FROM rides r WHERE EXISTS (SELECT 1 FROM gone g WHERE g.city = r.city AND r.fare > 9);
-- expect ok

SELECT id FROM rides;
-- expect rows
-- 2
-- 3
-- 4
-- 5
-- 8
-- 9
-- 11

DELETE FROM rides WHERE city = 'Lima' AND hour = 8;
-- expect ok

SELECT id FROM rides WHERE city = 'Lima';
-- expect rows
-- 4

DELETE FROM rides WHERE city IS NULL;
-- expect ok

DELETE FROM rides WHERE city = 'Oslo' AND fare > 2;
-- expect ok

DELETE FROM rides WHERE city IN ('Rome', 'Nowhere');
-- expect ok

SELECT id, fare, city, hour FROM rides;
-- expect rows
-- 2 | 2.0 | Oslo | 7
-- 4 | 4.0 | Lima | 7
-- 9 | 9.0 | Bonn | 1

DELETE FROM rides WHERE fare = (SELECT max(fare) FROM rides);
-- expect ok

SELECT id FROM rides;
-- expect rows
-- 2
-- 4

DELETE FROM rides WHERE hour + 1 = 8 AND upper(city) = 'LIMA';
-- expect ok

INSERT INTO rides (id, city, hour, fare) VALUES (1, 'Oslo', 7, 100.0);
-- expect ok

SELECT id, fare FROM rides;
-- expect rows
-- 1 | 100.0
-- 2 | 2.0

DELETE FROM rides WHERE nothing = 1;
-- expect error nothing

DELETE FROM nowhere;
-- expect error nowhere

DELETE FROM rides WHERE id = (SELECT id FROM gone);
-- expect error ore than one row

SELECT count(*) FROM rides;
-- expect rows
-- 2

DELETE FROM rides;
-- expect ok

SELECT count(*) FROM rides;
-- expect rows
-- 0

INSERT INTO rides (id, city, hour, fare) VALUES (1, 'Oslo', 7, 1.0), (2, 'Oslo', 7, 2.0);
-- expect ok

DELETE FROM rides WHERE city IS NULL;
-- expect ok

SELECT count(*) FROM rides;
-- expect rows
-- 2

DELETE FROM rides WHERE NOT (city IS NULL);
-- expect ok

SELECT count(*) FROM rides;
-- expect rows
-- 0

INSERT INTO rides (id, city, hour, fare) VALUES (1, 'Oslo', 7, 1.0), (2, 'Oslo', null, 2.0);
-- expect ok

DELETE FROM rides WHERE hour IS NOT NULL;
-- expect ok

SELECT id FROM rides;
-- expect rows
-- 2

DELETE FROM rides WHERE true;
-- expect ok

SELECT id FROM rides;
-- expect rows

DELETE FROM gone WHERE id = 99;
-- expect rows of gone
-- 7 | Bonn
