"""Mutants of what the shim guards, by row of the guard table: for each the jar is built again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.mutants.mutant import Mutant


def _scala(what: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(what, "", ((old, new),), tests, spark=True, scala=True)


SHIM: Final[Mapping[str, tuple[Mutant, ...]]] = {
    "rows that were read from the table before another's commit": (
        _scala(
            "a lost race writes the same rows again",
            "write(method, StatementPlans.on(rows, now), ",
            "write(method, if (now.isEmpty) StatementPlans.on(rows, now) else rows, ",
            "test_rows_that_were_read_before_a_commit_are_read_again_after_it[save]",
        ),
    ),
    "a column name that means another column in older files": (
        _scala(
            "filters on renamed columns reach the Parquet reader",
            "case (wanted, held) if wanted.dataType != held.dataType || wanted.name != held.name =>",
            "case (wanted, held) if wanted.dataType != held.dataType && wanted.name == held.name =>",
            "test_names_come_and_go_and_data_stays_with_its_column[6]",
            "test_a_renamed_column_of_hudis_is_found_in_older_files",
        ),
    ),
    "half a file under its final name": (
        Mutant(
            "a rename on HDFS replaces a taken name",
            "",
            (
                ("if (status(target).isDefined) throw new Taken(target)", ""),
                ("target, Options.Rename.NONE)", "target, Options.Rename.OVERWRITE)"),
            ),
            ("test_put_if_absent_refuses_a_taken_name_and_keeps_its_bytes[hadoop-first]",),
            spark=True,
            scala=True,
        ),
    ),
    "a data file that is gone or cut off when a task reads it": (
        _scala(
            "a reading task passes on what Parquet says",
            "throw files.files.flatMap(HudiDamage.of(_, conf, e)).headOption.getOrElse(e)",
            "throw files.files.headOption.flatMap(_ => Option(e)).getOrElse(e)",
            "test_the_session_that_knows_a_file_tells_of_its_damage_on_one_line",
            "test_a_query_that_a_clean_overtakes_is_told_so",
        ),
    ),
    "events that Spark drops, an attempt that starts as its job ends": (
        _scala(
            "our queue of events has Spark's bound",
            "context.conf.set(capacity, Int.MaxValue.toString)",
            'context.conf.set(capacity, "1")',
            "test_no_end_of_a_job_is_lost_however_fast_its_events_come",
        ),
        _scala(
            "Spark's scheduler is not asked which attempts run",
            "while (RunningAttempts.exist(context, property, key)) {",
            "while (key.isEmpty && RunningAttempts.exist(context, property, key)) {",
            "test_an_attempt_that_outlives_its_failed_job_is_waited_for",
        ),
    ),
    "an entry that the catalog would drop with its folder": (
        _scala(
            "an entry is dropped whichever it is by now",
            "if (known(ident).exists(CatalogEntries.isSame(_, stored))) forget(ident, stored)",
            "if (known(ident).isDefined) forget(ident, stored)",
            "test_a_failed_create_as_select_leaves_what_another_statement_registered_meanwhile",
        ),
        _scala(
            "the built-in catalog drops the folder",
            "case Some(stored) if deleted(stored) =>",
            "case Some(stored) if stored.identifier.table.isEmpty =>",
            "test_a_managed_table_is_not_dropped_under_a_running_write",
        ),
    ),
    "a stranger on the ports of a planner that the JVM started": (
        _scala(
            "calls from Python need no token",
            "new JavaServer(entry, 0, 0, 0, null, unknownYet, token)",
            "new JavaServer(entry, 0, 0, 0, null, unknownYet, null)",
            "test_a_stranger_without_the_token_gets_nothing_done",
        ),
    ),
    "a planner that dies while it answers": (
        _scala(
            "a planner that is gone stays",
            "Registration = current.filter(_.isAlive).getOrElse(started())",
            "Registration = current.getOrElse(started())",
            "test_spark_sql_works_through_every_end_of_its_planner",
        ),
    ),
}
