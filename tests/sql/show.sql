-- SHOW, DESCRIBE, and what is done to partitions by name.

CREATE TABLE rides (id INT, fare DOUBLE, day DATE, city STRING) USING pyhudi
PARTITIONED BY (day, city) TBLPROPERTIES (primaryKey = 'id');
-- expect ok

SHOW PARTITIONS rides;
-- expect rows

INSERT INTO rides VALUES (1, 1.0, DATE'2024-01-01', 'Oslo'), (2, 2.0, DATE'2024-01-01', 'Lima'),
  (3, 3.0, DATE'2024-01-02', 'Oslo'), (4, 4.0, null, 'Oslo');
-- expect ok

SHOW PARTITIONS rides;
-- expect rows
-- day=2024-01-01/city=Lima
-- day=2024-01-01/city=Oslo
-- day=2024-01-02/city=Oslo
-- day=__HIVE_DEFAULT_PARTITION__/city=Oslo

SHOW PARTITIONS rides PARTITION (city = 'Oslo');
-- expect rows
-- day=2024-01-01/city=Oslo
-- day=2024-01-02/city=Oslo
-- day=__HIVE_DEFAULT_PARTITION__/city=Oslo

SHOW PARTITIONS rides PARTITION (day = DATE'2024-01-01');
-- expect rows
-- day=2024-01-01/city=Lima
-- day=2024-01-01/city=Oslo

SHOW PARTITIONS rides PARTITION (nothing = 1);
-- expect error nothing

ALTER TABLE rides DROP PARTITION (day = DATE'2024-01-02', city = 'Oslo');
-- expect ok

SELECT id FROM rides;
-- expect rows
-- 1
-- 2
-- 4

ALTER TABLE rides DROP PARTITION (day = DATE'2024-01-02', city = 'Oslo');
-- expect error city

ALTER TABLE rides DROP IF EXISTS PARTITION (day = DATE'2024-01-02', city = 'Oslo');
-- expect ok

ALTER TABLE rides ADD PARTITION (day = DATE'2024-01-03', city = 'Oslo');
-- expect error first row

TRUNCATE TABLE rides PARTITION (day = DATE'2024-01-01', city = 'Lima');
-- expect ok

SHOW PARTITIONS rides;
-- expect rows
-- day=2024-01-01/city=Oslo
-- day=__HIVE_DEFAULT_PARTITION__/city=Oslo

SHOW TABLES;
-- expect text
-- suite | rides | false

SHOW TABLES LIKE 'ri*';
-- expect rows
-- suite | rides | false

DESCRIBE rides;
-- expect text
-- id | int | NULL
-- fare | double | NULL
-- day | date | NULL
-- city | string | NULL

DESCRIBE rides fare;
-- expect text
-- fare
-- double

DESCRIBE EXTENDED rides;
-- expect text
-- Provider | pyhudi
-- Location
-- rides

DESCRIBE rides nothing;
-- expect error nothing

DESCRIBE nowhere;
-- expect error nowhere

SHOW TBLPROPERTIES rides;
-- expect text
-- primaryKey | id
-- type | cow

SHOW CREATE TABLE rides;
-- expect text
-- CREATE TABLE
-- suite.rides
-- USING pyhudi
-- PARTITIONED BY (day, city)
-- 'primaryKey' = 'id'

SHOW CREATE TABLE nowhere;
-- expect error nowhere

EXPLAIN SELECT id FROM rides WHERE city = 'Oslo' AND fare > 1;
-- expect text
-- EqualTo(city,Oslo)
-- GreaterThan(fare,1.0)

ANALYZE TABLE rides COMPUTE STATISTICS;
-- expect error not supported for v2 tables

REFRESH TABLE rides;
-- expect ok

SHOW VIEWS;
-- expect rows

TRUNCATE TABLE nowhere;
-- expect error nowhere

DROP TABLE rides;
-- expect ok

SHOW TABLES;
-- expect rows
