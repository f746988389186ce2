-- UPDATE; another engine gives the same rows, but where only tables with keys refuse something.

CREATE TABLE rides (id BIGINT, city STRING, fare DOUBLE, day DATE, tags ARRAY<STRING>,
  place STRUCT<street: STRING, no: INT>)
USING pyhudi PARTITIONED BY (city) TBLPROPERTIES (primaryKey = 'id');
-- expect ok

INSERT INTO rides (id, city, fare, day, tags, place) VALUES
  (1, 'Oslo', 1.0, DATE'2024-01-01', array('a'), named_struct('street', 'Mall', 'no', 1)),
  (2, 'Oslo', 2.0, DATE'2024-01-02', array(), named_struct('street', null, 'no', 2)),
  (3, 'Lima', 3.0, DATE'2024-01-03', null, null),
  (4, 'Lima', null, null, array('b', 'c'), named_struct('street', 'Pier', 'no', null)),
  (5, null, 5.0, DATE'2024-01-05', array('d'), named_struct('street', 'Quay', 'no', 5));
-- expect ok

CREATE TABLE prices (id BIGINT, fare DOUBLE) USING pyhudi TBLPROPERTIES (primaryKey = 'id');
-- expect ok

INSERT INTO prices VALUES (1, 100.0), (3, 300.0), (9, 900.0);
-- expect ok

UPDATE rides SET fare = 1.5 WHERE id = 1;
-- expect ok

SELECT id, city, fare FROM rides;
-- expect rows
-- 1 | Oslo | 1.5
-- 2 | Oslo | 2.0
-- 3 | Lima | 3.0
-- 4 | Lima | NULL
-- 5 | NULL | 5.0

UPDATE rides SET fare = fare + 1, day = date_add(day, 1) WHERE city = 'Oslo';
-- expect ok

SELECT id, fare, day FROM rides WHERE id < 4;
-- expect rows
-- 1 | 2.5 | 2024-01-02
-- 2 | 3.0 | 2024-01-03
-- 3 | 3.0 | 2024-01-03

UPDATE rides SET fare = null WHERE fare > 4;
-- expect ok

SELECT id FROM rides WHERE fare IS NULL;
-- expect rows
-- 4
-- 5

UPDATE rides SET fare = 0 WHERE fare IS NULL AND city IS NOT NULL;
-- expect ok

SELECT id, fare FROM rides WHERE id > 3;
-- expect rows
-- 4 | 0.0
-- 5 | NULL

UPDATE rides SET fare = id, day = null WHERE city IS NULL;
-- expect ok

SELECT id, city, fare, day FROM rides WHERE id = 5;
-- expect rows
-- 5 | NULL | 5.0 | NULL

UPDATE rides AS r SET r.fare = (SELECT max(p.fare) FROM prices p) WHERE r.id = 2;
-- expect ok

UPDATE rides SET tags = array('n', 'm'), place = named_struct('street', 'Lane', 'no', 7)
WHERE id = 3;
-- expect ok

SELECT id, fare, tags, place FROM rides WHERE id IN (2, 3);
-- expect rows
-- 2 | 900.0 | [] | {"street":null,"no":2}
-- 3 | 3.0 | ["n","m"] | {"street":"Lane","no":7}

UPDATE rides SET place.no = 8 WHERE place.street = 'Lane';
-- expect ok

SELECT id, place.street, place.no FROM rides WHERE place.no = 8;
-- expect rows
-- 3 | Lane | 8

UPDATE rides SET fare = 11 WHERE id IN (SELECT id FROM prices WHERE fare < 200);
-- expect ok

UPDATE rides SET fare = 33 WHERE EXISTS (SELECT 1 FROM prices p WHERE p.id = rides.id AND p.id > 1);
-- expect ok

UPDATE rides SET fare = 22 WHERE id NOT IN (SELECT id FROM prices) AND id < 4;
-- expect ok

SELECT id, fare FROM rides;
-- expect rows
-- 1 | 11.0
-- 2 | 22.0
-- 3 | 33.0
-- 4 | 0.0
-- 5 | 5.0

UPDATE rides SET city = 'Rome' WHERE id = 2;
-- expect ok

SELECT city, count(*) FROM rides GROUP BY city;
-- expect rows
-- Oslo | 1
-- Lima | 2
-- Rome | 1
-- NULL | 1

UPDATE rides SET city = null, fare = -fare WHERE city = 'Lima' AND id = 3;
-- expect ok

UPDATE rides SET city = 'Oslo' WHERE city IS NULL AND id = 5;
-- expect ok

SELECT id, city, fare FROM rides;
-- expect rows
-- 1 | Oslo | 11.0
-- 2 | Rome | 22.0
-- 3 | NULL | -33.0
-- 4 | Lima | 0.0
-- 5 | Oslo | 5.0

UPDATE rides SET fare = CASE WHEN fare > 10 THEN 10 ELSE fare END;
-- expect ok

SELECT id, fare FROM rides;
-- expect rows
-- 1 | 10.0
-- 2 | 10.0
-- 3 | -33.0
-- 4 | 0.0
-- 5 | 5.0

UPDATE rides SET fare = 99 WHERE id = 77;
-- expect ok

UPDATE rides SET fare = 99 WHERE false;
-- expect ok

UPDATE rides SET fare = 99 WHERE CAST(null AS BOOLEAN);
-- expect ok

SELECT count(*) FROM rides WHERE fare = 99;
-- expect rows
-- 0

UPDATE rides SET fare = DEFAULT WHERE id = 4;
-- expect ok

SELECT id FROM rides WHERE fare IS NULL;
-- expect rows
-- 4

UPDATE rides SET nothing = 1;
-- expect error nothing

UPDATE rides SET fare = 'much' WHERE id = 1;
-- expect error CA

UPDATE rides SET fare = 1, fare = 2 WHERE id = 1;
-- expect error fare

UPDATE nowhere SET fare = 1;
-- expect error nowhere

UPDATE rides SET fare = 1 WHERE id = (SELECT id FROM prices);
-- expect error ore than one row

-- pyhudi only: other formats have no keys
UPDATE rides SET id = 6 WHERE id = 1;
-- expect error would change record keys, such as '1' to '6'

-- pyhudi only: other formats have no keys
UPDATE rides SET id = null WHERE id = 1;
-- expect error would change record keys

SELECT count(*), count(DISTINCT id) FROM rides;
-- expect rows
-- 5 | 5
