-- CREATE TABLE in all its forms, REPLACE, CREATE TABLE AS SELECT, DROP, and what is refused.

CREATE TABLE plain (id INT, name STRING) USING pyhudi;
-- expect rows of plain

CREATE TABLE plain (id INT) USING pyhudi;
-- expect error TABLE_OR_VIEW_ALREADY_EXISTS

CREATE TABLE IF NOT EXISTS plain (other INT) USING pyhudi;
-- expect ok

SELECT id, name FROM plain;
-- expect rows

CREATE TABLE suite.qualified (id INT) USING pyhudi;
-- expect rows of suite.qualified

CREATE TABLE commented (id INT COMMENT 'the key', name STRING) USING pyhudi COMMENT 'some rides'
TBLPROPERTIES (primaryKey = 'id', team = 'fares');
-- expect ok

DESCRIBE TABLE EXTENDED commented;
-- expect text
-- id | int | the key
-- some rides

SHOW TBLPROPERTIES commented ('team');
-- expect rows
-- team | fares

CREATE TABLE by_two (id INT, dt DATE, hour INT) USING pyhudi PARTITIONED BY (dt, hour)
OPTIONS (hoodie.datasource.write.hive_style_partitioning = 'true')
TBLPROPERTIES (primaryKey = 'id', preCombineField = 'hour');
-- expect ok

INSERT INTO by_two VALUES (1, DATE'2024-01-01', 7);
-- expect ok

SELECT id, _hoodie_partition_path FROM by_two;
-- expect rows
-- 1 | dt=2024-01-01/hour=7

CREATE TABLE versions (id INT) USING pyhudi TBLPROPERTIES (hoodie.write.table.version = '6');
-- expect ok

INSERT INTO versions VALUES (1);
-- expect rows of versions
-- 1

SHOW TBLPROPERTIES versions ('hoodie.write.table.version');
-- expect rows
-- hoodie.write.table.version | 6

CREATE TABLE outside (id INT, name STRING) USING pyhudi LOCATION '${folder}/outside'
TBLPROPERTIES (primaryKey = 'id');
-- expect ok

INSERT INTO outside VALUES (1, 'a'), (2, 'b');
-- expect ok

CREATE TABLE adopted USING pyhudi LOCATION '${folder}/outside';
-- expect rows of adopted
-- 1 | a
-- 2 | b

CREATE TABLE adopted_too (id INT, name STRING) USING pyhudi LOCATION '${folder}/outside';
-- expect ok

INSERT INTO adopted_too VALUES (3, 'c');
-- expect rows of adopted
-- 1 | a
-- 2 | b
-- 3 | c

CREATE TABLE wrong (id STRING, name STRING) USING pyhudi LOCATION '${folder}/outside';
-- expect error [SCHEMA_CONFLICT]

CREATE TABLE wrong USING pyhudi LOCATION '${folder}/outside' TBLPROPERTIES (primaryKey = 'name');
-- expect error [CONFIG_ERROR]

SELECT * FROM pyhudi.`${folder}/outside` WHERE id > 1;
-- expect rows
-- 2 | b
-- 3 | c

CREATE TABLE copied USING pyhudi TBLPROPERTIES (primaryKey = 'id') AS SELECT * FROM adopted;
-- expect rows of copied
-- 1 | a
-- 2 | b
-- 3 | c

CREATE TABLE parted USING pyhudi PARTITIONED BY (name) TBLPROPERTIES (primaryKey = 'id')
AS SELECT id, name, id * 2 AS twice FROM adopted WHERE id < 3;
-- expect ok

SELECT id, twice, name, _hoodie_partition_path FROM parted;
-- expect rows
-- 1 | 2 | a | name=a
-- 2 | 4 | b | name=b

CREATE TABLE elsewhere USING pyhudi LOCATION '${folder}/elsewhere' AS SELECT 1 AS id;
-- expect rows of elsewhere
-- 1

CREATE TABLE taken USING pyhudi LOCATION '${folder}/elsewhere' AS SELECT 2 AS id;
-- expect error [TABLE_EXISTS]

CREATE TABLE nobody USING pyhudi AS SELECT id FROM adopted WHERE false;
-- expect rows of nobody

CREATE TABLE failing USING pyhudi TBLPROPERTIES (primaryKey = 'id') AS SELECT CAST(null AS INT) AS id;
-- expect error [INVALID_RECORD]

SHOW TABLES LIKE 'failing|wrong|taken';
-- expect rows

CREATE OR REPLACE TABLE copied USING pyhudi AS SELECT 9 AS id, 'z' AS name;
-- expect rows of copied
-- 9 | z

REPLACE TABLE copied USING pyhudi AS SELECT id + 1 AS id, name FROM copied;
-- expect rows of copied
-- 10 | z

REPLACE TABLE missing USING pyhudi AS SELECT 1 AS id;
-- expect error missing

CREATE OR REPLACE TABLE fresh USING pyhudi AS SELECT 1 AS id;
-- expect rows of fresh
-- 1

CREATE OR REPLACE TABLE fresh USING pyhudi AS SELECT 2 AS id, 'm' AS more;
-- expect rows of fresh
-- 2 | m

CREATE OR REPLACE TABLE fresh USING pyhudi
TBLPROPERTIES ('hoodie.write.set.null.for.missing.columns' = 'true') AS SELECT 3 AS id;
-- expect rows of fresh
-- 3 | NULL

CREATE OR REPLACE TABLE fresh USING pyhudi AS SELECT 'o' AS other, 3 AS id;
-- expect rows of fresh
-- o | 3

REPLACE TABLE fresh USING pyhudi AS SELECT id, named_struct('was', other) AS other FROM fresh;
-- expect rows of fresh
-- 3 | {"was":"o"}

SELECT id, other.was FROM fresh;
-- expect rows
-- 3 | o

CREATE OR REPLACE TABLE fresh (id INT, more CHAR(3), price DECIMAL(9, 2) COMMENT 'euros')
USING pyhudi;
-- expect rows of fresh

INSERT INTO fresh VALUES (4, 'n', 1.5);
-- expect rows of fresh
-- 4 | n   | 1.50

CREATE OR REPLACE TABLE fresh (id INT, more STRING NOT NULL) USING pyhudi;
-- expect error does not say NOT NULL of column more, or parts of it, as the new definition does

CREATE OR REPLACE TABLE copied (id INT, name STRING) USING pyhudi;
-- expect rows of copied

CREATE TABLE bad (id INT) USING pyhudi TBLPROPERTIES (primaryKey = 'nothing');
-- expect error nothing

CREATE TABLE bad (id INT) USING pyhudi PARTITIONED BY (nothing);
-- expect error nothing

CREATE TABLE bad (id INT) USING pyhudi TBLPROPERTIES (preCombineField = 'nothing');
-- expect error nothing

CREATE TABLE bad (id INT) USING pyhudi TBLPROPERTIES (hoodie.write.table.version = '6', hoodie.table.cdc.enabled = 'true');
-- expect error [UNSUPPORTED_TABLE]

CREATE TABLE bad (id INT) USING pyhudi TBLPROPERTIES (type = 'heap');
-- expect error heap

CREATE TABLE bad (id INT) USING pyhudi TBLPROPERTIES (hoodie.write.table.version = '7');
-- expect error 7

CREATE TABLE bad (id INT) USING pyhudi TBLPROPERTIES (primarykeys = 'id');
-- expect error [CONFIG_ERROR]

CREATE TABLE bad (id INT) USING pyhudi OPTIONS (compression = 'zstd');
-- expect error [CONFIG_ERROR]

CREATE TABLE bad (id INT) USING pyhudi TBLPROPERTIES (hoodie.table.primaryKey = 'id');
-- expect error did you mean

CREATE TABLE bad (id INT, at TIMESTAMP) USING pyhudi PARTITIONED BY (days(at));
-- expect error [CONFIG_ERROR]

CREATE TABLE bad (id INT, ID INT) USING pyhudi;
-- expect error COLUMN_ALREADY_EXISTS

CREATE TABLE bad (id INT, `a b` INT) USING pyhudi;
-- expect error a b

CREATE TABLE bad (id INT, gap INTERVAL DAY) USING pyhudi;
-- expect error gap

CREATE TABLE bad (id INT, m MAP<INT, STRING>) USING pyhudi;
-- expect error m

CREATE TABLE bad (id INT) USING pyhudi CLUSTERED BY (id) INTO 4 BUCKETS;
-- expect error bucket

CREATE TABLE bad USING pyhudi;
-- expect error name them, as in CREATE TABLE

SHOW TABLES LIKE 'bad';
-- expect rows

CREATE TABLE fixed (id INT, c CHAR(3), v VARCHAR(3)) USING pyhudi;
-- expect ok

INSERT INTO fixed VALUES (1, 'a', 'abc');
-- expect ok

SELECT id, length(c), v FROM fixed WHERE c = 'a';
-- expect rows
-- 1 | 3 | abc

INSERT INTO fixed VALUES (1, 'a', 'abcd');
-- expect error 3

DROP TABLE plain;
-- expect ok

SELECT * FROM plain;
-- expect error plain

DROP TABLE plain;
-- expect error plain

DROP TABLE IF EXISTS plain;
-- expect ok

DROP TABLE outside;
-- expect ok

SELECT count(*) FROM adopted;
-- expect rows
-- 3

DROP TABLE copied PURGE;
-- expect ok

CREATE TABLE copied (other STRING) USING pyhudi;
-- expect rows of copied

DROP TABLE pyhudi.`${folder}/outside`;
-- expect error [UNSUPPORTED_TABLE]
