-- ALTER TABLE: columns are added and widened, properties and comments are the catalog's.

CREATE TABLE rides (id INT, n INT, fare FLOAT, price DECIMAL(5, 2), s STRING) USING pyhudi
TBLPROPERTIES (primaryKey = 'id');
-- expect ok

INSERT INTO rides VALUES (1, 7, CAST(0.5 AS FLOAT), 1.25, 'a');
-- expect ok

ALTER TABLE rides ADD COLUMN tip DOUBLE;
-- expect rows of rides
-- 1 | 7 | 0.5 | 1.25 | a | NULL

ALTER TABLE rides ADD COLUMNS (seats INT COMMENT 'how many', tags ARRAY<STRING>);
-- expect rows of rides
-- 1 | 7 | 0.5 | 1.25 | a | NULL | NULL | NULL

INSERT INTO rides VALUES (2, 8, CAST(1.5 AS FLOAT), 2.25, 'b', 0.1, 4, array('x'));
-- expect rows of rides
-- 1 | 7 | 0.5 | 1.25 | a | NULL | NULL | NULL
-- 2 | 8 | 1.5 | 2.25 | b | 0.1 | 4 | ["x"]

SELECT id FROM rides WHERE tip IS NULL;
-- expect rows
-- 1

SELECT id FROM rides WHERE tip > 0 AND seats = 4;
-- expect rows
-- 2

UPDATE rides SET tip = 9, seats = 1 WHERE id = 1;
-- expect ok

SELECT id, tip, seats, tags FROM rides;
-- expect rows
-- 1 | 9.0 | 1 | NULL
-- 2 | 0.1 | 4 | ["x"]

ALTER TABLE rides ALTER COLUMN n TYPE BIGINT;
-- expect ok

ALTER TABLE rides ALTER COLUMN fare TYPE DOUBLE;
-- expect ok

ALTER TABLE rides ALTER COLUMN price TYPE DECIMAL(9, 2);
-- expect ok

INSERT INTO rides (id, n, fare, price, s, tip, seats, tags)
VALUES (3, 1099511627776, 0.25D, 1234567.25, 'c', null, null, null);
-- expect ok

SELECT id, n, fare, price FROM rides;
-- expect rows
-- 1 | 7 | 0.5 | 1.25
-- 2 | 8 | 1.5 | 2.25
-- 3 | 1099511627776 | 0.25 | 1234567.25

SELECT id FROM rides WHERE n = 8;
-- expect rows
-- 2

SELECT id FROM rides WHERE n > 2147483647;
-- expect rows
-- 3

SELECT max(n), min(price), sum(fare) FROM rides;
-- expect rows
-- 1099511627776 | 1.25 | 2.25

ALTER TABLE rides ALTER COLUMN n TYPE INT;
-- expect error n

ALTER TABLE rides ALTER COLUMN s TYPE INT;
-- expect error s

ALTER TABLE rides ALTER COLUMN price TYPE DECIMAL(4, 2);
-- expect error price

ALTER TABLE rides ADD COLUMN tip INT;
-- expect error tip

ALTER TABLE rides ADD COLUMN `a b` INT;
-- expect error a b

ALTER TABLE rides ALTER COLUMN nothing TYPE BIGINT;
-- expect error nothing

ALTER TABLE rides ALTER COLUMN s SET NOT NULL;
-- expect error s

ALTER TABLE nowhere ADD COLUMN tip INT;
-- expect error nowhere

ALTER TABLE rides ALTER COLUMN s COMMENT 'a text';
-- expect ok

DESCRIBE TABLE rides s;
-- expect text
-- a text

ALTER TABLE rides SET TBLPROPERTIES (team = 'fares', owner_mail = 'x@y');
-- expect ok

SHOW TBLPROPERTIES rides (team);
-- expect rows
-- team | fares

ALTER TABLE rides UNSET TBLPROPERTIES (team);
-- expect ok

SHOW TBLPROPERTIES rides (team);
-- expect text
-- does not have property: team

ALTER TABLE rides UNSET TBLPROPERTIES IF EXISTS (nothing);
-- expect ok

-- a property that the table contradicts would make every later write fail
ALTER TABLE rides SET TBLPROPERTIES (team = 'fares', primaryKey = 'city');
-- expect error [CONFIG_ERROR]

ALTER TABLE rides SET TBLPROPERTIES (primarykeys = 'id');
-- expect error [CONFIG_ERROR]

ALTER TABLE rides SET TBLPROPERTIES (hoodie.write.concurrency.mdoe = 'single_writer');
-- expect error [CONFIG_ERROR]

SHOW TBLPROPERTIES rides (team);
-- expect text
-- does not have property: team

ALTER TABLE rides SET LOCATION '${folder}/elsewhere';
-- expect error [UNSUPPORTED_TABLE]

DESCRIBE TABLE rides;
-- expect text
-- id | int | NULL
-- n | bigint | NULL
-- fare | double | NULL
-- price | decimal(9,2) | NULL
-- seats | int | how many
-- tags | array<string> | NULL

SELECT count(*) FROM rides;
-- expect rows
-- 3
