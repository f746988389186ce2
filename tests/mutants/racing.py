"""Mutants of the guards against other writers, readers and services."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Guard, Mutant

RACING: Final = (
    Guard(
        "two writers take the same `T`",
        (
            Mutant(
                "an instant is requested over another's",
                "put_instant",
                (("table.storage.put_if_absent(", "table.storage.replace("),),
                ("test_a_time_taken_by_the_same_action_is_left_to_its_owner",),
            ),
            Mutant(
                "a request that landed at a commit's time is rolled back with the commit's files",
                "_late_requests",
                (("", "return []"),),
                (
                    "test_a_request_that_landed_at_the_time_of_a_commit_goes_without_the_commits_files",
                ),
            ),
            Mutant(
                "no look whether another action took the time",
                "_try_time",
                (
                    (
                        "any(i and i.time == time and i.action is not action for i in found)",
                        "False",
                    ),
                ),
                ("test_writers_that_take_one_time_for_two_actions_both_give_it_up",),
            ),
        ),
    ),
    Guard(
        "a step that an instant must not take: a file out of its order, or the undoing of an "
        "unknown outcome",
        (
            Mutant(
                "a file is put in any order",
                "put_instant",
                (("check_step(was, to)", "pass"),),
                (
                    "test_an_illegal_put_asks_nothing_of_the_storage",
                    "test_a_step_that_the_table_lacks_is_not_put",
                ),
            ),
            Mutant(
                "a write goes from any phase to any other",
                "check_move",
                (("", "return"),),
                (
                    "test_a_transaction_commits_only_after_the_seal",
                    "test_a_step_that_the_table_lacks_is_not_taken",
                ),
            ),
            Mutant(
                "a write is undone from any phase",
                "RunningInstant.abort",
                (("if not leads(self.phase, Phase.FAILED):", "if False:"),),
                ("test_what_a_block_raises_behind_an_end_undoes_nothing",),
            ),
        ),
    ),
    Guard(
        "a clock that is behind, or goes back",
        (
            Mutant(
                "times are the clock's alone",
                "next_time",
                (("if now > greatest else", "if True else"),),
                (
                    "test_a_clock_far_behind_the_table_still_moves_forward",
                    "test_the_next_time_exceeds_every_request_and_completion",
                ),
            ),
        ),
    ),
    Guard(
        "a reader that follows instant times misses a slow writer",
        (
            Mutant(
                "a time is kept though a commit overtook it",
                "overtaken",
                (("any(commit.time > time for commit in timeline.commits)", "False"),),
                ("test_a_time_that_a_commit_overtook_is_given_up",),
            ),
            Mutant(
                "a checkpoint takes one listing",
                "safe_checkpoint",
                (("for i in before.commits", "for i in now.commits"),),
                (
                    "test_one_torn_listing_would_pass_over_a_commit",
                    "test_no_commit_is_passed_over_however_writers_and_listings_interleave",
                ),
            ),
        ),
    ),
    Guard(
        "a service planned over a table that moves",
        (
            Mutant(
                "the planner's view is listed before the lock is there",
                "ServicePlanners.schedule",
                (
                    ("            timeline = table.timeline()\n", ""),
                    (
                        "with writer.locked(after):",
                        "timeline = table.timeline()\n        with writer.locked(after):",
                    ),
                ),
                ("test_the_view_has_what_was_committed_while_the_lock_was_waited_for",),
            ),
            Mutant(
                "no look at the lease before a plan is put",
                "ServicePlanners.schedule",
                (("lambda time: lock.check(table.storage.put_timeout_s)", "lambda time: None"),),
                ("test_a_plan_is_not_published_again_under_a_lease_that_has_ended",),
            ),
        ),
    ),
    Guard(
        "a merge into a slice newer than the write",
        (
            Mutant(
                "targets of any age are merged into",
                "Transaction.check_targets",
                (("", "return"),),
                ("test_a_merge_target_newer_than_the_own_instant_is_refused",),
            ),
        ),
    ),
    Guard(
        "lost updates",
        (
            Mutant(
                "no commit is compared",
                "check_conflicts",
                (("if verdict.conflict:", "if False:"),),
                (
                    "test_two_writers_of_one_group_conflict_and_the_loser_names_both",
                    "test_a_commit_since_the_load_is_judged_whatever_its_time",
                ),
            ),
            Mutant(
                "file groups are not compared",
                "judge",
                (("ours.updated & theirs.updated", "frozenset[Group]()"),),
                ("test_the_truth_table",),
            ),
            Mutant(
                "buckets are not compared",
                "_by_bucket",
                (("ours.buckets & theirs.buckets", "frozenset[tuple[str, int]]()"),),
                ("test_the_truth_table", "test_each_strategy_has_its_own_unit"),
            ),
            Mutant(
                "replaced partitions are not compared",
                "_unless_swept",
                (("if swept:", "if False:"),),
                ("test_the_truth_table",),
            ),
        ),
    ),
    Guard(
        "a commit that the archiver takes off the timeline before it was compared",
        (
            Mutant(
                "the archive is not asked",
                "Meanwhile.commits",
                (("for entry in self._archived:", "for entry in list[ArchivedInstant]():"),),
                ("test_a_write_that_is_archived_before_older_ones_is_judged",),
            ),
        ),
    ),
    Guard(
        "rows that come back after a restore, or a rollback of a completed commit",
        (
            Mutant(
                "writes go on beside pending undoings",
                "check_undoing",
                (("", "return"),),
                (
                    "test_a_write_does_not_begin_while_a_restore_is_pending",
                    "test_a_write_does_not_begin_on_a_commit_that_is_being_rolled_back",
                ),
            ),
            Mutant(
                "a restore since the load is no conflict",
                "_check_restores",
                (("", "return"),),
                ("test_a_restore_conflicts_with_every_write",),
            ),
            Mutant(
                "undone commits are not missed",
                "Meanwhile.undone",
                (("", "return []"),),
                ("test_a_commit_that_vanished_was_undone_and_the_write_on_it_conflicts",),
            ),
            Mutant(
                "a time is kept though an undoing overtook it",
                "overtaken",
                (("return undone or any", "return any"),),
                ("test_a_time_that_an_undoing_overtook_is_given_up",),
            ),
        ),
    ),
    Guard(
        "a plan that a crash left empty or incomplete",
        (
            Mutant(
                "a torn plan is an error",
                "plan_of",
                (("return None", "raise"),),
                ("test_a_torn_plan_of_any_service_stops_no_write",),
            ),
            Mutant(
                "what is unknown counts as a write",
                "work_of",
                (("return Work.UNKNOWN", "return Work.WRITE"),),
                (
                    "test_a_torn_replace_commit_of_version_6_holds_the_fence",
                    "test_a_torn_plan_of_a_service_is_left_alone_and_told",
                ),
            ),
        ),
    ),
    Guard(
        "rows that were read from the table before another's commit",
        (
            Mutant(
                "rows are judged from the state of the write's own begin",
                "_written_or_again",
                (("since=reads.state", "since=None"),),
                (
                    "test_rows_are_judged_from_the_state_that_they_were_read_in",
                    "test_rows_that_were_read_from_the_table_are_not_written_a_second_time",
                ),
            ),
            Mutant(
                "a state that is not known is the present one",
                "OwnReads.state",
                (("if self.since is None:", "if False:"),),
                ("test_a_state_that_is_not_known_is_a_conflict",),
            ),
            Mutant(
                "a lost race is repeated with the same rows",
                "Retries.run",
                (("if self.once:", "if False:"),),
                ("test_rows_that_were_read_from_the_table_are_not_written_a_second_time",),
            ),
        ),
    ),
    Guard(
        "a scan's state that is no longer in memory",
        (
            Mutant(
                "the digest is not compared",
                "PinnedQueries.state",
                (("if not kept.exact:", "if False:"),),
                (
                    "test_a_state_that_cannot_be_told_for_certain_is_none_to_be_judged_from",
                    "test_a_state_that_became_uncertain_stays_so_until_it_is_described_again",
                ),
            ),
            Mutant(
                "the state is as of the instant, with what completed since",
                "PinnedQueries._reopened",
                (("timeline=_as_it_was(query.timeline, asked)", "timeline=query.timeline"),),
                ("test_a_statement_whose_pin_is_gone_is_judged_from_the_state_that_it_read",),
            ),
        ),
    ),
    Guard(
        "a key that two writes add at once",
        (
            Mutant(
                "keys that both brought are let through",
                "KeyCheck.__call__",
                (("if found:", "if False:"),),
                ("test_a_key_that_both_bring_is_a_conflict_and_another_is_none",),
            ),
            Mutant(
                "archived commits are not compared by keys",
                "check_conflicts",
                (("if check_theirs is not None:", "if False:"),),
                ("test_the_key_check_sees_archived_writes_as_well",),
            ),
        ),
    ),
    Guard(
        "a schema that two writes change at once",
        (
            Mutant(
                "each declares its own schema",
                "settled",
                (("return _RULES[rule](start, now, ours)", "return ours"),),
                ("test_the_eight_cases_of_rfc_82",),
            ),
            Mutant(
                "what only the other changed is lost",
                "settled",
                (("return now  # 6", "return ours  # 6"),),
                ("test_the_eight_cases_of_rfc_82",),
            ),
            Mutant(
                "a schema that a later instant hides is committed",
                "declared_schema",
                (("other is not None and not same_schema(other, declared)", "False"),),
                ("test_a_schema_that_a_later_instant_would_hide_is_written_again",),
            ),
            Mutant(
                "a file is taken to have the types that its commit declares",
                "FileSchemas.of_file",
                ((" or self._may_be_narrower(self._commits[instant], declared)", ""),),
                (
                    "test_a_base_file_of_a_writer_beside_which_types_widened_has_its_own_types",
                    "test_types_that_widen_while_a_compaction_runs_are_the_tables_but_not_of_its_files",
                ),
            ),
        ),
    ),
    Guard(
        "deletes in logs whose ordering values Apache Hudi cannot compare with a wider column",
        (
            Mutant(
                "the column widens over deletes in logs",
                "check_ordering_types",
                (("if path is not None:", "if False:"),),
                ("test_an_ordering_column_does_not_widen_while_a_log_has_deletes",),
            ),
            Mutant(
                "the column widens over rows that it orders otherwise",
                "check_ordering_types",
                (("if reason is not None and path is not None:", "if False:"),),
                ("test_it_does_not_widen_over_rows_of_logs_that_it_orders_otherwise",),
            ),
            Mutant(
                "deletes of an older type are committed",
                "check_ordering_types",
                (("if declared != given and any(", "if False and any("),),
                ("test_a_write_whose_deletes_are_of_an_older_type_is_written_again",),
            ),
        ),
    ),
    Guard(
        "a column name that means another column in older files",
        (
            Mutant(
                "columns are found by their names",
                "_held_struct",
                (
                    (
                        'by_id.get(field["metadata"][ID])',
                        '{f["name"]: f for f in file["fields"]}.get(field["name"])',
                    ),
                ),
                ("test_each_file_is_read_by_the_version_of_its_commit",),
            ),
            Mutant(
                "every file has the newest version",
                "SchemaHistory._of_file",
                (
                    (
                        "found = identified(file, version)",
                        "found = identified(file, self.current())",
                    ),
                ),
                (
                    "test_each_file_is_read_by_the_version_of_its_commit",
                    "test_before_the_first_change_columns_are_told_by_names",
                ),
            ),
            Mutant(
                "a column of a new definition has the id of the old one of its name",
                "redefined_version",
                ((" - gone", ""),),
                ("test_a_column_of_a_new_definition_has_an_id_of_its_own",),
            ),
        ),
    ),
    Guard(
        "the history of a change of columns that failed",
        (
            Mutant(
                "a rollback leaves the history",
                "delete_history",
                (("", "return"),),
                ("test_a_failed_change_of_columns_takes_its_history_along",),
            ),
            Mutant(
                "the archive is not asked for the commit of a history",
                "SchemaHistory._was_archived",
                ((" and not PASSED_OVER.has(self.table, time)", ""),),
                ("test_a_history_that_no_commit_went_with_tells_nothing_once_archived_past",),
            ),
        ),
    ),
    Guard(
        "a write for columns that were renamed or dropped meanwhile",
        (
            Mutant(
                "columns that are others by now are let through",
                "",
                (("if not changed and not altered:", "if True:"),),
                (
                    "test_a_write_for_columns_that_are_others_by_now_fails",
                    "test_of_two_changes_at_once_the_second_fails",
                ),
            ),
        ),
    ),
    Guard(
        "a dead writer that wakes up",
        (
            Mutant(
                "no look whether the instant is still there",
                "check_alive",
                (("", "return"),),
                (
                    "test_nothing_is_put_by_a_write_whose_rollback_has_begun",
                    "test_a_writer_whose_rollback_is_pending_cannot_publish",
                ),
            ),
            Mutant(
                "the age of the own heartbeat does not count",
                "Heartbeat.check",
                (("if self.lapsed():", "if False:"),),
                ("test_a_lapsed_heartbeat_fences",),
            ),
        ),
    ),
    Guard(
        "a last put that is sent again on a successor's table",
        (
            Mutant(
                "no look before the put comes again",
                "FinalPut._look_again",
                (("", "return"),),
                (
                    "test_a_put_is_not_sent_again_once_somebody_rolls_the_write_back",
                    "test_a_put_is_not_sent_again_over_what_completed_since_it_was_judged",
                ),
            ),
            Mutant(
                "no look at the lease before the put comes again",
                "FinalPut._look_again",
                (("self._lock.check(self._table.storage.put_timeout_s)", "pass"),),
                ("test_a_put_is_not_sent_again_where_the_lease_may_end_before_it_lands",),
            ),
            Mutant(
                "no look at the lease before the first put",
                "FinalPut._lands",
                (("self._lock.check(storage.put_timeout_s)", "pass"),),
                ("test_a_lease_that_does_not_outlast_the_put_fences",),
            ),
        ),
    ),
    Guard(
        "a write that is undone, or overtaken, while its last put is under way",
        (
            Mutant(
                "no look back",
                "FinalPut._look_back",
                (("", "return"),),
                (
                    "test_a_write_that_was_undone_beside_its_final_put_takes_back_what_it_put",
                    "test_a_put_that_outlasted_the_lease_is_not_acknowledged_over_a_successors_commit",
                ),
            ),
            Mutant(
                "what was undone is not taken back",
                "FinalPut._look_back",
                (("if undone:", "if False:"),),
                ("test_a_write_that_was_undone_beside_its_final_put_takes_back_what_it_put",),
            ),
            Mutant(
                "what was overtaken is acknowledged",
                "FinalPut._look_back",
                (("self._compare(replace(now, instants=others))", "pass"),),
                (
                    "test_a_put_that_outlasted_the_lease_is_not_acknowledged_over_a_successors_commit",
                ),
            ),
        ),
    ),
    Guard(
        "a key that the state in front of the index misses, or sees where it is not",
        (
            Mutant(
                "the state answers for files that others have replaced",
                "KeyState.of_view",
                (("if path not in paths]", "if False]"),),
                ("test_files_that_are_not_in_the_view_are_forgotten",),
            ),
            Mutant(
                "a key that several files may have is in all of them",
                "_Places.doubtful",
                (("(files > 1) | sure", "sure"),),
                ("test_a_key_that_two_files_may_have_is_looked_up_in_both",),
            ),
            Mutant(
                "a key is known by its hash where only certainty will do",
                "_Places.doubtful",
                (("(files > 1) | sure", "files > 1"),),
                ("test_a_lookup_that_must_be_sure_reads_the_files_that_may_have_a_key",),
            ),
            Mutant(
                "entries of deleted keys go without a count of the deleted rows",
                "KeyState._dead",
                (("if len(entry) == change.deletes", "if len(entry)"),),
                (
                    "test_a_deletion_beside_a_key_of_the_same_hash_drops_nothing",
                    "test_deletes_drop_entries_only_if_the_commit_counted_as_many_rows",
                ),
            ),
            Mutant(
                "a merge is learned though it inserted other keys",
                "changes_of",
                (("if stat.num_inserts != len(fresh):", "if False:"),),
                ("test_a_merge_that_inserted_a_key_taken_for_known_is_not_learned",),
            ),
            Mutant(
                "a file is covered though it has more rows than entries",
                "KeyState._changed",
                (("if not 0 <= entries", "if not -99 <= entries"),),
                ("test_a_file_with_more_rows_than_entries_is_read_again",),
            ),
        ),
    ),
)
