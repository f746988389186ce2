"""Which names options may have, and what a refusal says of the others."""

from __future__ import annotations

import pytest

from pyhudi.config import QueryType, resolve_read, resolve_write
from pyhudi.errors import ConfigError
from pyhudi.hudi_keys import FIXED, FIXED_READS, OPEN_FAMILIES, has_no_effect, without_effect
from pyhudi.option_names import nearest, refuse_near_properties, refuse_unknown_write
from pyhudi.option_tables import READ_TABLE, WRITE_TABLE

KEY = "hoodie.datasource.write.recordkey.field"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("recordkey.field", KEY),
        ("precombine.field", "hoodie.datasource.write.precombine.field"),
        ("partitionpath.field", "hoodie.datasource.write.partitionpath.field"),
        ("primarykeys", "primaryKey"),
        ("primary_key", "primaryKey"),
        ("recordKey", "primaryKey"),
        ("preCombine", "orderingFields"),
        ("tableType", "type"),
        ("hudi.table.name", "hoodie.table.name"),
        ("hoddie.table.name", "hoodie.table.name"),
        ("partitionOverwritemodes", "partitionOverwriteMode"),
    ],
)
def test_a_misspelt_option_of_a_write_is_refused_with_the_name_that_was_meant(
    key: str, meant: str
) -> None:
    with pytest.raises(ConfigError, match="nothing was written") as refused:
        refuse_unknown_write({key: "x"})
    assert refused.value.facts["nearest"] == meant


@pytest.mark.parametrize("key", ["as.of.instnat", "as.of.instants", "asofinstnt"])
def test_a_misspelt_point_in_time_is_refused_on_reads(key: str) -> None:
    with pytest.raises(ConfigError, match=f"'{key}' is not an option of a read") as refused:
        resolve_read({key: "20250101000000000"})
    assert refused.value.facts["nearest"] == "as.of.instant"


@pytest.mark.parametrize("key", ["versionAsOf", "timestampAsOf", "as.of.instant", "snapshot-id"])
def test_a_write_has_no_point_in_time(key: str) -> None:
    with pytest.raises(ConfigError, match="newest state"):
        refuse_unknown_write({key: "1"})


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("compression", "hoodie.parquet.compression.codec"),
        ("maxRecordsPerFile", "hoodie.parquet.max.file.size"),
        ("target-file-size-bytes", "hoodie.parquet.max.file.size"),
        ("header", "columns and their types"),
        ("inferSchema", "columns and their types"),
        ("basePath", "the table's own folder"),
        ("recursiveFileLookup", "the table's own folder"),
    ],
)
def test_options_of_sparks_file_sources_are_named_on_reads_and_writes(key: str, named: str) -> None:
    for asked in (refuse_unknown_write, resolve_read):
        with pytest.raises(ConfigError, match=f"'{key}' is an option of other sources.*{named}"):
            asked({key: "true"})


@pytest.mark.parametrize("asked", [resolve_write, resolve_read])
@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("hoodie.write.concurrency.mdoe", "hoodie.write.concurrency.mode"),
        ("hoodie.cleaner.commit.retained", "hoodie.cleaner.commits.retained"),
        ("hoodie.clustering.inlin", "hoodie.clustering.inline"),
        ("hoodie.metadata.enabel", "hoodie.metadata.enable"),
        ("hoodie.upsert.shuffle.paralelism", "hoodie.upsert.shuffle.parallelism"),
    ],
)
def test_a_misspelt_key_in_a_family_of_hudis_is_no_key_of_hudis(
    asked: type, key: str, meant: str
) -> None:
    for said in ({key: "1"}, None):
        with pytest.raises(ConfigError, match="did you mean") as refused:
            asked(said) if said else asked({}, session={key: "1"})
        assert refused.value.facts["nearest"] == meant


def test_names_that_others_choose_pass_with_the_warning() -> None:
    given = {"hoodie.streamer.source.kafka.topic": "t"}
    assert set(resolve_write(given).ignored) == set(given)


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("hoodie.payload.delete.condition", "op = 'd'", "_hoodie_is_deleted"),
        ("hoodie.precommit.validators", "com.acme.NoNulls", "Check the rows before"),
        ("hoodie.static.overwrite.partition.paths", "a,b", "OVERWRITE t PARTITION"),
        ("hoodie.write.commit.callback.class", "com.acme.Tell", "pyhudi.on_commit"),
        ("hoodie.record.merge.property.com.acme.rule", "op", "does not do"),
        ("hoodie.index.class", "com.acme.Index", "does not support"),
        (
            "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
            "true",
            "supports only 'false'",
        ),
    ],
)
def test_what_would_leave_other_rows_than_in_hudi_is_refused_by_writes_alone(
    key: str, value: str, instead: str
) -> None:
    with pytest.raises(ConfigError, match=instead):
        resolve_write({key: value})
    resolve_read({}, {key: value})


def test_the_one_value_of_a_class_is_taken_as_hudi_spells_it() -> None:
    given = {"hoodie.write.concat.handle.class": "org.apache.hudi.io.HoodieConcatHandle"}
    assert resolve_write(given).ignored == ()


@pytest.mark.parametrize("name", ["incr.path.glob", "paths", "incr.filters"])
def test_a_read_of_other_rows_than_a_snapshot_is_refused(name: str) -> None:
    key = f"hoodie.datasource.read.{name}"
    for given in (({key: "x"}, {}), ({}, {key: "x"})):
        with pytest.raises(ConfigError, match="or a range of its commits"):
            resolve_read(*given)


@pytest.mark.parametrize(
    ("key", "served", "other"),
    [
        ("hoodie.datasource.merge.type", "payload_combine", "skip_merge"),
        ("hoodie.realtime.merge.skip", "false", "true"),
    ],
)
def test_a_read_that_would_leave_logs_out_is_refused(key: str, served: str, other: str) -> None:
    for text in (other, other.upper()):
        for given in (({key: text}, {}), ({}, {key: text})):
            with pytest.raises(ConfigError, match=f"supports only '{served}'.*read_optimized"):
                resolve_read(*given)
    assert resolve_read({key: served}, {key: served.upper()}).ignored == ()
    assert resolve_write({key: other}).ignored == ()


def test_the_name_of_hive_sync_for_base_files_alone_says_the_type_of_a_query() -> None:
    key, kind = "hoodie.query.as.ro.table", "hoodie.datasource.query.type"
    assert resolve_read({key: "True"}).query_type is QueryType.READ_OPTIMIZED
    assert resolve_read({}, {key: "true"}).query_type is QueryType.READ_OPTIMIZED
    assert resolve_read({key: "false"}, {kind: "read_optimized"}).query_type is QueryType.SNAPSHOT
    # Hive sync sets it for each table, and a read of the table sets the other name.
    for named in (kind, "hoodie.datasource.view.type"):
        asked = resolve_read({named: "incremental", key: "FALSE"})
        assert asked.query_type is QueryType.INCREMENTAL
    with pytest.raises(ConfigError, match="two names of one option"):
        resolve_read({key: "true", kind: "snapshot"})


def test_a_key_is_known_once_as_an_option_as_fixed_or_as_without_effect() -> None:
    own = {key.lower() for row in (*WRITE_TABLE, *READ_TABLE) for key in row.keys}
    assert not own & without_effect().keys()
    assert not own & FIXED.keys()
    assert not FIXED.keys() & without_effect().keys()
    assert not FIXED_READS.keys() & (own | FIXED.keys() | without_effect().keys())
    assert not [key for key in without_effect() if key.startswith(OPEN_FAMILIES)]
    assert has_no_effect("hoodie.archive.async")
    assert list(without_effect()) == sorted(without_effect())


@pytest.mark.parametrize(
    "note", ["owner", "team", "typ", "quality", "created_by", "write.format.default", "keys",
             "spark.sql.statistics.numRows", "retention_days", "delta.minReaderVersion"],
)  # fmt: skip
def test_properties_may_hold_notes(note: str) -> None:
    refuse_near_properties([note])


@pytest.mark.parametrize(
    "key", ["primarykeys", "PrimaryKeyy", "preCombineFeild", "record_key", "recordkey.field",
            "hudi.table.name", "orderingfield", "merge.mode"],
)  # fmt: skip
def test_a_property_that_nearly_is_an_option_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="in TBLPROPERTIES is not an option"):
        refuse_near_properties([key])


def test_a_name_that_is_like_no_other_is_refused_without_a_guess() -> None:
    assert nearest("zzz") is None
    with pytest.raises(ConfigError, match="No option has a similar name"):
        refuse_unknown_write({"zzz": "1"})


@pytest.mark.parametrize("value", ["false", "FALSE"])
def test_inserts_that_would_keep_one_row_of_a_key_are_not_promised(value: str) -> None:
    with pytest.raises(ConfigError, match="insert.dup.policy"):
        resolve_write({"hoodie.merge.allow.duplicate.on.inserts": value})
    resolve_write({"hoodie.merge.allow.duplicate.on.inserts": "true"})
