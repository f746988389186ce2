-- INSERT in all its forms; where rows are replaced, whole partitions are.

CREATE TABLE trips (id INT, name STRING, fare DECIMAL(6, 2), dt STRING, hour INT) USING pyhudi
PARTITIONED BY (dt, hour);
-- expect ok

INSERT INTO trips VALUES (1, 'values', 1.5, 'x', 1);
-- expect rows of trips
-- 1 | values | 1.50 | x | 1

INSERT INTO TABLE trips SELECT 2, 'select', 2, 'x', 2;
-- expect ok

INSERT INTO trips TABLE trips;
-- expect ok

SELECT count(*) FROM trips;
-- expect rows
-- 4

INSERT INTO trips (hour, dt, fare, name, id) VALUES (3, 'y', 3, 'columns', 3);
-- expect ok

INSERT INTO trips BY NAME SELECT 4 AS id, 9 AS hour, 'y' AS dt, 4 AS fare, 'by name' AS name;
-- expect ok

INSERT INTO trips PARTITION (dt = 'z', hour = 4) SELECT 5, 'static', 5;
-- expect ok

INSERT INTO trips PARTITION (dt = 'z', hour) SELECT 6, 'half dynamic', 6, 5;
-- expect ok

INSERT INTO trips PARTITION (dt, hour) VALUES (7, 'dynamic', 7, 'z', 6);
-- expect ok

INSERT INTO trips PARTITION (dt = 'z', hour = 7) (id, fare, name) VALUES (8, 8, 'static, columns');
-- expect ok

SELECT id, name, fare, dt, hour FROM trips WHERE id > 2;
-- expect rows
-- 3 | columns | 3.00 | y | 3
-- 4 | by name | 4.00 | y | 9
-- 5 | static | 5.00 | z | 4
-- 6 | half dynamic | 6.00 | z | 5
-- 7 | dynamic | 7.00 | z | 6
-- 8 | static, columns | 8.00 | z | 7

INSERT INTO trips VALUES (9, null, null, null, null), (10, '', 0, '', 0);
-- expect ok

SELECT * FROM trips WHERE id > 8;
-- expect rows
-- 9 | NULL | NULL | NULL | NULL
-- 10 |  | 0.00 |  | 0

FROM trips INSERT INTO trips SELECT id + 100, 'from', fare, dt, hour WHERE id = 5;
-- expect ok

WITH few AS (SELECT 11 AS id) INSERT INTO trips SELECT id, 'with', 1, 'w', 1 FROM few;
-- expect ok

SELECT id, name FROM trips WHERE id > 10;
-- expect rows
-- 11 | with
-- 105 | from

INSERT INTO trips SELECT * FROM trips WHERE false;
-- expect ok

INSERT INTO trips VALUES (12, 'too few', 1, 'x');
-- expect error INSERT

INSERT INTO trips VALUES (12, 'too many', 1, 'x', 1, 1);
-- expect error INSERT

INSERT INTO trips VALUES ('twelve', 'cast', 1, 'x', 1);
-- expect error CA

INSERT INTO trips VALUES (12, 'too wide', 12345678.9, 'x', 1);
-- expect error OVERFLOW

INSERT INTO trips (id, nothing) VALUES (1, 2);
-- expect error nothing

INSERT INTO trips (id, id, name, fare, dt) VALUES (1, 1, 'twice', 1, 'x');
-- expect error id

INSERT INTO trips PARTITION (nothing = 1) SELECT 1, 'x', 1;
-- expect error nothing

INSERT INTO trips PARTITION (name = 'x') SELECT 1, 1, 'x', 1;
-- expect error name

INSERT INTO nowhere VALUES (1);
-- expect error nowhere

INSERT OVERWRITE trips PARTITION (dt = 'z', hour = 4) SELECT 20, 'replaced', 20;
-- expect ok

INSERT OVERWRITE trips PARTITION (dt = 'y', hour = 3) SELECT 21, 'nothing', 1 WHERE false;
-- expect ok

INSERT OVERWRITE trips PARTITION (dt = 'x', hour) SELECT 22, 'all of x', 22, 1;
-- expect ok

SELECT id, name, dt, hour FROM trips WHERE dt IN ('x', 'y', 'z');
-- expect rows
-- 22 | all of x | x | 1
-- 4 | by name | y | 9
-- 20 | replaced | z | 4
-- 6 | half dynamic | z | 5
-- 7 | dynamic | z | 6
-- 8 | static, columns | z | 7

SET spark.sql.sources.partitionOverwriteMode = dynamic;
-- expect ok

INSERT OVERWRITE trips VALUES (30, 'dynamic', 30, 'z', 4), (31, 'dynamic', 31, 'new', 1);
-- expect ok

INSERT OVERWRITE trips PARTITION (dt = 'z', hour) SELECT 32, 'half', 32, 5;
-- expect ok

INSERT OVERWRITE trips SELECT * FROM trips WHERE false;
-- expect ok

SELECT id, name, dt, hour FROM trips WHERE dt IN ('x', 'z', 'new');
-- expect rows
-- 22 | all of x | x | 1
-- 30 | dynamic | z | 4
-- 32 | half | z | 5
-- 7 | dynamic | z | 6
-- 8 | static, columns | z | 7
-- 31 | dynamic | new | 1

RESET spark.sql.sources.partitionOverwriteMode;
-- expect ok

INSERT OVERWRITE TABLE trips SELECT id, name, fare, dt, hour FROM trips WHERE dt = 'z' AND hour < 6;
-- expect rows of trips
-- 30 | dynamic | 30.00 | z | 4
-- 32 | half | 32.00 | z | 5

INSERT INTO trips REPLACE WHERE dt = 'z' AND hour = 5 SELECT 40, 'where', 40, 'z', 5;
-- expect rows of trips
-- 30 | dynamic | 30.00 | z | 4
-- 40 | where | 40.00 | z | 5

INSERT INTO trips REPLACE WHERE id = 40 SELECT 41, 'row', 41, 'z', 5;
-- expect error [CONFIG_ERROR]

INSERT OVERWRITE trips VALUES (1, 'all', 1, 'x', 1);
-- expect rows of trips
-- 1 | all | 1.00 | x | 1

CREATE TABLE plain (id INT, name STRING) USING parquet;
-- expect ok

INSERT INTO plain VALUES (50, 'parquet');
-- expect ok

INSERT INTO trips SELECT id, name, 5, 'p', 1 FROM plain;
-- expect ok

INSERT INTO plain SELECT id, name FROM trips WHERE dt = 'x';
-- expect rows of plain
-- 50 | parquet
-- 1 | all

TRUNCATE TABLE trips;
-- expect rows of trips

INSERT INTO trips VALUES (1, 'after', 1, 'x', 1);
-- expect rows of trips
-- 1 | after | 1.00 | x | 1
