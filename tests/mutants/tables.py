"""Mutants of the guards around a table's being there, its settings, and what is outside of it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Guard, Mutant

TABLES: Final = (
    Guard(
        "properties that a dead writer left absent or cut short, or that two change at once",
        (
            Mutant(
                "the backup does not count",
                "open_table",
                (("for path in (PROPERTIES, BACKUP, PROPERTIES):", "for path in (PROPERTIES,):"),),
                ("test_the_backup_counts_where_a_change_of_apache_hudis_has_died",),
            ),
            Mutant(
                "no backup is put",
                "rewrite_properties",
                (("storage.replace(BACKUP, render_properties(table.config.raw))", "pass"),),
                (
                    "test_a_change_that_dies_where_files_are_not_replaced_at_once_leaves_the_old_properties",
                ),
            ),
            Mutant(
                "the put may outlast the lease",
                "rewrite_properties",
                (("lock.check(storage.put_timeout_s)", "pass"),),
                ("test_properties_are_not_changed_under_a_lease_that_may_end_before",),
            ),
        ),
    ),
    Guard(
        "a table that its creator removes, or DROP deletes, under another writer",
        (
            Mutant(
                "the table's id is not compared",
                "still_there",
                (("if now.config.raw.get(ID) != table.config.raw.get(ID):", "if False:"),),
                ("test_a_write_to_a_table_that_was_replaced_meanwhile_fails",),
            ),
            Mutant(
                "a running write does not keep the table from its creator",
                "_is_used",
                (("", "return False"),),
                (
                    "test_a_write_that_has_begun_keeps_the_table",
                    "test_a_sign_of_another_writer_keeps_the_table",
                ),
            ),
            Mutant(
                "a running write does not keep the table from DROP",
                "_refuse_running",
                (("", "return"),),
                ("test_a_drop_waits_for_the_lock_and_leaves_a_table_with_a_running_write",),
            ),
            Mutant(
                "a table is taken away under a lease that has ended",
                "remove",
                (("lock.check(storage.put_timeout_s)", "pass"),),
                ("test_nothing_is_made_or_taken_away_under_a_lock_that_has_lapsed",),
            ),
        ),
    ),
    Guard(
        "a folder whose creator died",
        (
            Mutant(
                "what dead writers left is not settled",
                "_settle_leftovers",
                (("settle_failed_writes(writer.on(Table(storage, like)))", "pass"),),
                (
                    "test_a_folder_whose_writer_died_without_a_table_takes_a_new_one",
                    "test_rows_of_a_write_that_began_too_late_stay_out_of_the_next_table",
                ),
            ),
            Mutant(
                "commits without properties are an empty folder",
                "_settle_leftovers",
                (("if timeline.commits:", "if False:"),),
                ("test_commits_without_properties_are_not_taken_for_an_empty_folder",),
            ),
        ),
    ),
    Guard("an entry that the catalog would drop with its folder"),
    Guard(
        "a stale metadata table",
        (
            Mutant(
                "the metadata table stays on",
                "drop_metadata_table",
                (("", "return still_there(table)"),),
                ("test_the_metadata_table_is_given_up_before_the_commit_appears",),
            ),
        ),
    ),
    Guard(
        "a metastore that does not answer after a commit",
        (
            Mutant(
                "the write fails after its commit",
                "RegisteredTables.follow",
                (("self.forget(name)", "raise"),),
                ("test_a_metastore_that_is_lost_leaves_a_warning_and_the_next_commit_heals",),
            ),
            Mutant(
                "commits of others, or that could not be told, are not compared",
                "_alone",
                (("", "return True"),),
                ("test_after_commits_of_others_all_partitions_are_compared",),
            ),
        ),
        "That a failure forgets what is known of the entry: the next commit finds one that was not "
        "told, and so compares everything in any case.",
    ),
    Guard(
        "an option that contradicts the table",
        (
            Mutant(
                "the call outranks the table",
                "_refuse_contradiction",
                (("", "return"),),
                ("test_an_option_may_repeat_the_table_but_not_contradict_it",),
            ),
        ),
    ),
    Guard(
        "a path that leaves the table",
        (
            Mutant(
                "storage takes any path",
                "checked",
                (("", "return path.removesuffix('/')"),),
                ("test_a_path_that_leaves_the_table_is_refused",),
            ),
            Mutant(
                "data may name any partition path",
                "check_partition_path",
                (("", "return"),),
                ("test_a_value_that_is_no_folder_of_the_table_is_refused",),
            ),
        ),
    ),
    Guard("events that Spark drops, an attempt that starts as its job ends"),
    Guard(
        "a stranger on the callback socket",
        (
            Mutant(
                "any secret will do",
                "Endpoint._answer",
                (
                    (
                        "hmac.compare_digest(str(secret).encode(), self._secret.encode())",
                        "True",
                    ),
                ),
                ("test_a_stranger_at_the_callback_port_gets_nothing_done",),
                spark=True,
            ),
            Mutant(
                "anybody may have the endpoint forgotten",
                "_Kept.__delitem__",
                (("if not isinstance(self[key], Endpoint):", "if True:"),),
                ("test_a_stranger_at_the_callback_port_gets_nothing_done",),
                spark=True,
            ),
        ),
    ),
    Guard(
        "a stranger on the ports of a planner that the JVM started",
        (
            Mutant(
                "calls from the JVM need no token",
                "connect",
                (("gateway.callback_server_parameters.auth_token = greeting.token", "pass"),),
                ("test_a_stranger_without_the_token_gets_nothing_done",),
                spark=True,
            ),
        ),
    ),
    Guard(
        "an interrupt in the middle of a statement, after which the JVM would go on and commit",
        (
            Mutant(
                "a write does not hear that it was interrupted",
                "Interrupts.told",
                (("", "return False"),),
                ("test_a_write_that_was_interrupted_ends_as_an_interrupt",),
            ),
            Mutant(
                "an interrupt cancels the next statement too",
                "Interrupts.begin",
                (("conversation is not self._frame", "False"),),
                ("test_an_interrupt_of_one_statement_does_not_cancel_the_next",),
            ),
        ),
    ),
    Guard("a planner that dies while it answers"),
    Guard(
        "a planner that outlives its JVM",
        (
            Mutant(
                "it does not end with its stdin",
                "main",
                (("os._exit(0)", "while True:\n        signal.pause()"),),
                ("test_it_ends_with_its_stdin_whatever_it_is_doing",),
            ),
        ),
    ),
    Guard(
        "a Java, Spark or jar that does not fit",
        (
            Mutant(
                "any Java is started",
                "check_before_start",
                (("", "return"),),
                ("test_a_java_that_does_not_fit_is_named",),
            ),
            Mutant(
                "any Spark in the JVM will do",
                "check_version",
                (("", "return"),),
                ("test_another_spark_in_the_jvm_than_in_python_is_told",),
            ),
            Mutant(
                "any jar will do",
                "_check_jar",
                (("", "return"),),
                (
                    "test_a_driver_with_the_jar_of_another_spark_is_told_which",
                    "test_a_driver_without_the_jar_is_told_how_to_get_it",
                ),
            ),
        ),
    ),
)
