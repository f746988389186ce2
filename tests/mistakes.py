"""SQL that users write by mistake, and what the error must say: the name, or what to do.

``{lake}`` is a folder with the table ``rides`` and another one with Parquet files, ``{parquet}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

#: lines of a message that a user sees at once
MOST_LINES: Final = 15

TABLES: Final = (
    (
        "CREATE TABLE rides (id BIGINT, fare DOUBLE, ts BIGINT, city STRING) USING pyhudi "
        "PARTITIONED BY (city) LOCATION '{lake}/rides' TBLPROPERTIES (primaryKey = 'id', "
        "preCombineField = 'ts', 'hoodie.datasource.write.hive_style_partitioning' = 'true')"
    ),
    "INSERT INTO rides VALUES (1, 1.5, 1, 'Porto'), (2, 2.5, 1, 'Turin')",
    "CREATE TABLE notes (id BIGINT, text STRING) USING pyhudi LOCATION '{lake}/notes'",
    "INSERT INTO notes VALUES (1, 'x')",
    "CREATE OR REPLACE TEMP VIEW news AS SELECT 1L id, 2D fare, 3L ts, 'Porto' city",
)

NO_TABLE: Final = "ridez|nowhere"
SYNTAX: Final = "[Ss]yntax error"
MISTAKES: Final[tuple[tuple[str, str], ...]] = (
    # ---- queries
    ("SELECT * FROM ridez", NO_TABLE),
    ("SELECT nme FROM rides", "nme"),
    ("SELECT * FROM rides TIMESTAMP AS OF '1999-01-01'", "its first commit is"),
    ("SELECT * FROM rides TIMESTAMP AS OF '2999-13-01'", "2999-13-01"),
    ("SELECT * FROM rides TIMESTAMP AS OF 'yesterday'", "yesterday"),
    ("SELECT * FROM rides VERSION AS OF 1", "'1' is not a point in time"),
    ("SELECT * FROM rides VERSION AS OF 'main'", "'main' is not a point in time"),
    ("SELECT * FROM pyhudi.`/no/such/table`", "Nothing is there"),
    ("SELECT * FROM pyhudi.`relative/table`", "not absolute. Write it in full"),
    ("SELECT * FROM pyhudi.`{parquet}`", "It holds Parquet files"),
    ("SELECT * FROM pyhudi.`{lake}/rides/city=Porto`", "It is a partition of the table at"),
    ("SELECT * FROM pyhudi.`{lake}`", "There is one at {lake}/"),
    ("SELECT * FROM pyhudi.`http://host/table`", "an address of the web"),
    ("SELECT * FROM pyhudi.`gs://bucket/table`", "does not keep tables on 'gs:'"),
    ("SELECT * FROM rides.histroy", "histroy"),
    # ---- INSERT
    ("INSERT INTO ridez VALUES (1)", NO_TABLE),
    ("INSERT INTO rides VALUES (1)", "not enough data columns"),
    ("INSERT INTO rides VALUES (1, 2.0, 3, 'Porto', 'more')", "too many data columns"),
    ("INSERT INTO rides VALUES (NULL, 2.0, 3, 'Porto')", "null or empty record key"),
    ("INSERT INTO rides VALUES ('abc', 2.0, 3, 'Porto')", "Cannot safely cast `id`|abc"),
    ("INSERT INTO rides (id, wrong) VALUES (1, 2)", "wrong"),
    ("INSERT INTO rides (id, id) VALUES (1, 2)", "`id` already exists"),
    ("INSERT INTO rides PARTITION (town = 'Porto') VALUES (1, 2.0, 3)", "town"),
    ("INSERT INTO rides PARTITION (fare = 2) VALUES (1, 3, 'Porto')", "fare"),
    ("INSERT INTO rides SELECT * FROM nowhere", NO_TABLE),
    ("INSERT INTO rides SELECT id, fare FROM rides", "not enough data columns"),
    ("INSERT OVERWRITE rides PARTITION (town = 'x') SELECT 1, 2.0, 3", "town"),
    ("INSERT INTO rides VALUES (1, 2.0, 3, 'a/../../b')", "not a folder inside the table"),
    # ---- UPDATE, DELETE, MERGE
    ("UPDATE rides SET id = 9", "would change record keys"),
    ("UPDATE rides SET id = id + 1 WHERE id = 1", "would change record keys"),
    ("UPDATE rides SET wrong = 1", "wrong"),
    ("UPDATE rides SET fare = 'dear'", "fare|dear"),
    ("UPDATE ridez SET fare = 1", NO_TABLE),
    ("UPDATE rides SET fare = 1, fare = 2", "Multiple assignments for 'fare'"),
    ("UPDATE rides SET fare = 1 WHERE wrong = 2", "wrong"),
    ("DELETE FROM rides WHERE wrong = 1", "wrong"),
    ("DELETE FROM ridez", NO_TABLE),
    ("DELETE FROM rides LIMIT 1", SYNTAX),
    ("DELETE FROM rides WHERE id", "not a boolean"),
    ("MERGE INTO rides t USING news s ON t.wrong = s.id WHEN MATCHED THEN DELETE", "wrong"),
    ("MERGE INTO rides t USING nowhere s ON t.id = s.id WHEN MATCHED THEN DELETE", NO_TABLE),
    (
        (
            "MERGE INTO rides t USING (SELECT 77L id, 1D fare, 1L ts, 'x' city UNION ALL "
            "SELECT 77L, 2D, 1L, 'x') s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        ),
        "more than one row with the key '77'",
    ),
    (
        (
            "MERGE INTO rides t USING (SELECT 1L id, 1D fare) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *"
        ),
        "ts",
    ),
    (
        (
            "MERGE INTO rides t USING (SELECT 1L id) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET id = 7"
        ),
        "would change record keys",
    ),
    (
        (
            "MERGE INTO rides t USING (SELECT 8L id) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT (id, fare, ts, city) VALUES (NULL, 1, 1, 'Porto')"
        ),
        "null or empty record key",
    ),
    ("MERGE INTO rides t USING news s ON t.id = s.id", "at least one WHEN clause"),
    (
        (
            "MERGE INTO rides t USING (SELECT 1L id UNION ALL SELECT 1L) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET fare = 9"
        ),
        "MERGE_CARDINALITY_VIOLATION.*Leave one row of the source",
    ),
    # ---- rows that cannot be computed
    *(
        (statement, r"\[WRITE_FAILED\].*Nothing of it is visible")
        for statement in (
            "INSERT INTO rides SELECT 9, double(raise_error('boom')), 3, 'Porto'",
            "INSERT OVERWRITE rides SELECT 9, double(raise_error('boom')), 3, 'Porto'",
            "UPDATE rides SET fare = double(raise_error('boom'))",
            "DELETE FROM rides WHERE boolean(raise_error('boom'))",
            (
                "MERGE INTO rides t USING news s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET fare = double(raise_error('boom'))"
            ),
            "CREATE TABLE bad USING pyhudi AS SELECT double(raise_error('boom')) AS fare",
        )
    ),
    # ---- CREATE
    ("CREATE TABLE rides (id INT) USING pyhudi", "already exists"),
    ("CREATE TABLE bad USING pyhudi", "has no columns: name them"),
    *(
        (f"CREATE TABLE bad (id INT) USING pyhudi TBLPROPERTIES ({said})", says)
        for said, says in (
            ("primarykeys = 'id'", "it nearly is 'primaryKey'"),
            ("primary_key = 'id'", "it nearly is 'primaryKey'"),
            ("recordkey.field = 'id'", "it nearly is 'hoodie.datasource.write.recordkey.field'"),
            ("primaryKey = 'nothing'", "record key column 'nothing' is not a column"),
            ("preCombineField = 'nothing'", "ordering column 'nothing' is not a column"),
            ("precombine = 'id'", "it nearly is 'orderingFields'"),
            (
                "'hoodie.write.table.version' = '6', 'hoodie.table.cdc.enabled' = 'true'",
                "no change logs in version 6",
            ),
            ("type = 'heap'", "must be one of COPY_ON_WRITE"),
            ("tableType = 'cow'", "it nearly is 'type'"),
            ("'hoodie.write.table.version' = '7'", "must be 9, 8 or 6"),
            ("'hoodie.write.table.version' = 'nine'", "must be a whole number"),
            ("'hoodie.index.type' = 'HBASE'", "must be one of SIMPLE"),
            ("'hoodie.index.typ' = 'BLOOM'", "did you mean 'hoodie.index.type'"),
            ("'hoodie.write.concurrency.mdoe' = 'x'", "did you mean 'hoodie.write.concurrency.m"),
            ("'hoodie.write.concurrency.mode' = 'many'", "must be one of SINGLE_WRITER"),
            ("'hoodie.record.merge.mode' = 'EVENT_TIME_ORDERING'", "needs an ordering column"),
            ("'hoodie.record.merge.mode' = 'LAST'", "must be one of EVENT_TIME_ORDERING"),
            ("'hoodie.table.cdc.enabled' = 'on'", "must be true or false"),
            ("'hoodie.populate.meta.fields' = 'false'", "supports only 'true'"),
            ("'hoodie.merge.allow.duplicate.on.inserts' = 'false'", "insert.dup.policy"),
            ("'hoodie.write.lock.provider' = 'zookeeper'", "needs 'hoodie.write.lock.zookeeper"),
            ("'hoodie.parquet.max.file.size' = '120MB'", "must be a whole number"),
            ("'hoodie.parquet.max.file.size' = '0'", "must be at least 1"),
            ("'hoodie.combine.before.upsert' = 'yes'", "must be true or false"),
            ("'hudi.table.name' = 'x'", "it nearly is 'hoodie.table.name'"),
        )
    ),
    ("CREATE TABLE bad (id INT) USING pyhudi OPTIONS (compression = 'zstd')", "codec of base"),
    ("CREATE TABLE bad (id INT) USING pyhudi OPTIONS (recordkey.field = 'id')", "Did you mean"),
    ("CREATE TABLE bad (id INT) USING pyhudi OPTIONS (header = 'true')", "knows its columns"),
    ("CREATE TABLE bad (id INT) USING pyhudi PARTITIONED BY (nothing)", "nothing"),
    (
        "CREATE TABLE bad (id INT, day DATE) USING pyhudi PARTITIONED BY (years(day))",
        "partitioned by columns, not by years",
    ),
    (
        "CREATE TABLE bad (id INT, c STRING) USING pyhudi PARTITIONED BY (bucket(4, c))",
        "partitioned by columns, not by bucket",
    ),
    (
        "CREATE TABLE bad (id INT) USING pyhudi CLUSTERED BY (id) INTO 4 BUCKETS",
        "partitioned by columns, not by bucket",
    ),
    (
        "CREATE TABLE bad (id INT, c STRUCT<a: INT>) USING pyhudi PARTITIONED BY (c)",
        "partition column 'c' is struct<a:int>, but its values must be plain",
    ),
    (
        "CREATE TABLE bad (id ARRAY<INT>) USING pyhudi TBLPROPERTIES (primaryKey = 'id')",
        "record key column 'id' is array<int>, but its values must be plain",
    ),
    (
        "CREATE TABLE bad (o ARRAY<INT>) USING pyhudi TBLPROPERTIES (preCombineField = 'o')",
        "ordering column 'o' is array<int>, but its values must be plain",
    ),
    (
        "CREATE TABLE bad (o BINARY) USING pyhudi TBLPROPERTIES (preCombineField = 'o')",
        "ordering column 'o' is binary, but its values must be plain",
    ),
    ("CREATE TABLE bad (id INT, id STRING) USING pyhudi", "`id` already exists"),
    ("CREATE TABLE bad (id INT, ID STRING) USING pyhudi", "already exists"),
    (
        "CREATE TABLE bad (id INT, `_hoodie_record_key` STRING) USING pyhudi",
        "'_hoodie_record_key' is one of Hudi's own",
    ),
    ("CREATE TABLE bad (id INT, gap INTERVAL DAY) USING pyhudi", "gap"),
    ("CREATE TABLE bad (id INT) USING pyhudi LOCATION 'relative/path'", "absolute"),
    ("CREATE TABLE bad (id INT) USING pyhudi LOCATION '{lake}/rides/in'", "inside the table at"),
    ("CREATE TABLE bad (id INT) USING pyhudi LOCATION '{parquet}'", "holds no Hudi table, but"),
    ("CREATE TABLE bad (id STRING) USING pyhudi LOCATION '{lake}/rides'", "columns differ"),
    (
        "CREATE TABLE bad USING pyhudi LOCATION '{lake}/rides' TBLPROPERTIES (primaryKey = 'ts')",
        "keeps what it was created with",
    ),
    (
        "CREATE TABLE bad USING pyhudi LOCATION '{lake}/rides' AS SELECT 1 AS id",
        "There is already a Hudi table",
    ),
    ("CREATE TABLE bad USING pyhudi AS SELECT * FROM nowhere", NO_TABLE),
    (
        (
            "CREATE TABLE bad USING pyhudi TBLPROPERTIES (primaryKey = 'id') "
            "AS SELECT CAST(NULL AS INT) AS id"
        ),
        "null or empty record key",
    ),
    ("CREATE TABLE bad USING pyhudi AS SELECT 1 AS a, 2 AS a", "`a` already exists"),
    ("CREATE OR REPLACE TABLE rides (id INT) USING pyhudi", "cannot be replaced in place"),
    # ---- ALTER
    ("ALTER TABLE ridez ADD COLUMNS (x INT)", NO_TABLE),
    ("ALTER TABLE rides ADD COLUMNS (fare INT)", "`fare` already exists"),
    ("ALTER TABLE rides ADD COLUMNS (x INT NOT NULL)", "existing rows have no value"),
    ("ALTER TABLE rides ADD COLUMNS (x INT AFTER nothing)", "x|nothing"),
    ("ALTER TABLE rides DROP COLUMN nothing", "nothing"),
    ("ALTER TABLE rides DROP COLUMN id", "the record key uses it"),
    ("ALTER TABLE rides DROP COLUMN city", "the partition path uses it"),
    ("ALTER TABLE rides DROP COLUMN ts", "the ordering of rows uses it"),
    ("ALTER TABLE rides RENAME COLUMN id TO key", "the record key uses it"),
    ("ALTER TABLE rides RENAME COLUMN nothing TO x", "nothing"),
    ("ALTER TABLE rides RENAME COLUMN fare TO ts", "`ts` already exists"),
    ("ALTER TABLE rides ALTER COLUMN fare TYPE INT", "fare"),
    ("ALTER TABLE rides ALTER COLUMN id TYPE STRUCT<a: INT>", "id"),
    ("ALTER TABLE rides ALTER COLUMN fare SET NOT NULL", "fare"),
    ("ALTER TABLE rides ALTER COLUMN fare SET DEFAULT 1", "fare|DEFAULT"),
    *(
        (f"ALTER TABLE rides SET TBLPROPERTIES ({said})", says)
        for said, says in (
            ("primaryKey = 'city'", "keeps what it was created with"),
            ("primarykeys = 'id'", "it nearly is 'primaryKey'"),
            ("type = 'mor'", "keeps what it was created with"),
            ("'hoodie.table.name' = 'x'", "keeps what it was created with"),
            ("'hoodie.datasource.write.partitionpath.field' = 'ts'", "keeps what it was created"),
            ("'hoodie.index.typ' = 'x'", "did you mean 'hoodie.index.type'"),
            ("'hoodie.write.concurrency.mode' = 'x'", "must be one of SINGLE_WRITER"),
            ("preCombineField = 'fare'", "keeps what it was created with"),
        )
    ),
    ("ALTER TABLE rides SET LOCATION '/elsewhere'", "cannot be altered, since its data"),
    ("ALTER TABLE rides RENAME TO notes", "already exists"),
    ("ALTER TABLE rides DROP PARTITION (city = 'Olso')", "Olso"),
    ("ALTER TABLE rides DROP PARTITION (town = 'Porto')", "town"),
    ("ALTER TABLE rides DROP PARTITION (fare = 1)", "fare"),
    ("ALTER TABLE notes DROP PARTITION (id = 1)", "id|partition"),
    ("ALTER TABLE rides PARTITION (city = 'Porto') RENAME TO PARTITION (city = 'x')", "renam"),
    # ---- other statements
    ("TRUNCATE TABLE rides PARTITION (town = 'Porto')", "town"),
    ("TRUNCATE TABLE ridez", NO_TABLE),
    ("SHOW PARTITIONS rides PARTITION (town = 'Porto')", "town"),
    ("SHOW PARTITIONS ridez", NO_TABLE),
    ("DROP TABLE ridez", NO_TABLE),
    ("DROP VIEW rides", "DROP TABLE|(?i:view)"),
    ("DESCRIBE HISTORY rides", r"write: SELECT \* FROM rides\.history"),
    ("desc history rides limit 1", r"write: SELECT \* FROM rides\.history"),
    ("DESCRIBE DETAIL pyhudi.`{lake}/rides`", r"SELECT \* FROM pyhudi\.`{lake}/rides`\.files"),
    ("OPTIMIZE rides", r"pyhudi.system.cluster\(table => 'rides'\)"),
    ("OPTIMIZE rides WHERE city = 'Porto' ZORDER BY (ts)", "pyhudi.system.cluster"),
    ("VACUUM rides RETAIN 0 HOURS", r"pyhudi\.system\.clean\(table => 'rides'\)"),
    ("RESTORE TABLE rides TO VERSION AS OF 1", "TIMESTAMP AS OF '<instant>'"),
    ("VACUUM", SYNTAX),
    ("CALL run_compaction(table => 'rides')", r"CALL pyhudi\.system\.run_compaction\(table =>"),
    ("call system.Clean('rides')", r"CALL pyhudi\.system\.Clean\(table =>"),
    ("CALL show_commits(table => 'rides')", r"write: SELECT \* FROM <table>\.history"),
    ("CALL run_clean(table => 'rides')", r"write: CALL pyhudi\.system\.clean\(table =>"),
    ("ANALYZE TABLE rides COMPUTE STATISTICS", "ANALYZE TABLE"),
    ("MSCK REPAIR TABLE ridez", NO_TABLE),
    ("CREATE INDEX i ON rides (fare)", "(?i:index)"),
    ("REFRESH TABLE ridez", NO_TABLE),
    ("LOAD DATA INPATH '/x' INTO TABLE rides", "LOAD DATA"),
)


#: the same with a Python function ``failing``, for clients that register it
BY_UDF: Final = tuple(
    (statement, r"\[WRITE_FAILED\].*ValueError: not this one\. Nothing of it is visible")
    for statement in (
        "INSERT INTO rides SELECT failing(id), 2.0, 3, 'Porto' FROM rides",
        "UPDATE rides SET fare = failing(id)",
        "DELETE FROM rides WHERE failing(id) = 1",
    )
)


def data_files(places: dict[str, str]) -> list[tuple[str, int, int]]:
    """All files but those of the timeline: a write that was rolled back is told there."""
    found = [path for place in places.values() for path in Path(place).rglob("*")]
    files = [path for path in found if path.is_file() and "timeline" not in path.parts]
    return sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)


def unclear(
    run: Callable[[str], object],
    places: dict[str, str],
    more: tuple[tuple[str, str], ...] = (),
) -> list[str]:
    """The mistakes that ``run`` answers with no error, a long one, or one that says too little.

    ``places`` has the folders of the statements; ``more`` are further statements.
    """
    found = []
    for statement, says in (*MISTAKES, *more):
        for name, place in places.items():
            statement = statement.replace("{" + name + "}", place)
            says = says.replace("{" + name + "}", re.escape(place))
        try:
            run(statement)
        except Exception as error:
            text = str(error).strip()
            lines = len(text.splitlines())
            if lines > MOST_LINES or not re.search(says, text):
                found.append(f"{statement}\n    {lines} lines: {text[:300]}")
        else:
            found.append(f"{statement}\n    no error")
    return found
