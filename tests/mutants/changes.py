"""Mutants of the guards around change data: no change is lost, and none is told twice."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Guard, Mutant

CHANGES: Final = (
    Guard(
        "change data that tells of a row what did not happen to it",
        (
            Mutant(
                "the position is believed without a look at the keys",
                "PieceReader._in_place",
                (("", "return True"),),
                ("test_rows_in_another_order_are_found_by_their_keys",),
            ),
            Mutant(
                "a clustering changes rows",
                "Finder.pieces",
                (("if metadata.operation in STILL:", "if False:"),),
                ("test_a_row_that_was_only_copied_or_moved_is_no_change",),
            ),
            Mutant(
                "a row without a key in its slice has an image all the same",
                "PieceReader._looked_up",
                (("if (at[wanted] < 0).any():", "if False:"),),
                ("test_a_log_that_names_a_row_which_no_slice_has_is_corrupt",),
            ),
            Mutant(
                "a log is believed of a key with several rows",
                "last_of_each",
                (("if again.any() or (steps[before] == steps[after]).any():", "if False:"),),
                ("test_a_key_of_several_rows_is_no_matter_of_logs",),
            ),
            Mutant(
                "records may end anywhere",
                "AvroColumns.decode",
                (("if not np.array_equal(at, ends):", "if False:"),),
                ("test_a_record_that_ends_elsewhere_is_an_error_by_columns_too",),
            ),
            Mutant(
                "a slice is merged without a log that is gone",
                "SlicesThen._slice",
                (("if lost:", "if False:"),),
                ("test_a_slice_of_which_a_file_is_gone_is_refused",),
            ),
            Mutant(
                "logs of earlier commits do not count before a commit",
                "_differences",
                (("if part.instant != change.instant", "if False"),),
                ("test_each_range_gives_what_each_of_its_commits_did",),
            ),
            Mutant(
                "archived commits are left out",
                "commits_of",
                (("if newest is not None and", "if False and"),),
                ("test_archived_commits_of_the_range_are_refused",),
            ),
        ),
    ),
    Guard(
        "a change log that Apache Hudi's reader misses, or finds without its commit",
        (
            Mutant(
                "no change, no log",
                "ChangeLogWriter.close",
                (("if self._held or not self._blocks:", "if self._held:"),
                 ("assert self._stream is not None", "if self._stream is None: return {}")),
                ("test_a_merge_that_changes_nothing_has_a_log_without_records",),
            ),
            Mutant(
                "appended rows are not logged",
                "Append.add",
                (("incoming, self._log)", "incoming)"),),
                ("test_rows_appended_to_an_old_file_are_logged_and_a_new_file_has_no_log",),
            ),
            Mutant(
                "a log has no marker",
                "ChangeLogWriter.__init__",
                (("files.markers.announce(self._marker.render())", "pass"),),
                ("test_the_log_is_beside_its_file_and_has_a_marker",),
            ),
            Mutant(
                "a failed task leaves its log",
                "ChangeLogWriter._flush",
                (("self._files.unfinished[self.path] = self", "pass"),),
                ("test_a_failed_task_leaves_no_log_behind",),
            ),
            Mutant(
                "SEAL deletes the logs of the commit",
                "commit",
                (("*(file.cdc_stats or ())", ""),),
                ("test_a_table_made_with_change_logs_has_one_for_each_merged_file",),
            ),
            Mutant(
                "a clean leaves the logs of the files that it deletes",
                "plan_clean",
                (("enumerate(each.files)", "enumerate(each.files[:1])"),),
                ("test_a_change_log_goes_with_the_file_that_it_is_beside",),
            ),
            Mutant(
                "logs are written to tables of version 6",
                "unlogged",
                (("if config.cdc_enabled and config.layout == 1:", "if False:"),),
                ("test_change_logs_are_not_written_to_tables_of_version_6",),
            ),
            Mutant(
                "a log of rows does not name its slice",
                "naming_slices",
                (("if not logs or not config.cdc_enabled", "if config.cdc_enabled"),),
                ("test_a_log_names_its_whole_slice_in_a_table_with_change_logs",),
            ),
            Mutant(
                "a compaction writes no change log",
                "_spec",
                (("if running.ACTION is Action.LOGCOMPACTION:", "if True:"),),
                ("test_the_change_log_of_a_compaction_has_what_the_logs_did",),
            ),
            Mutant(
                "a compaction tells each update as an insert and a delete",
                "CompactedChanges._updated",
                (("if self._before is None:", "if True:"),),
                ("test_the_change_log_of_a_compaction_has_what_the_logs_did",),
            ),
            Mutant(
                "change logs of a dead compaction stay",
                "_token",
                (("log.cdc or action", "action"),),
                ("test_what_a_dead_run_logged_goes_with_its_base_files",),
            ),
        ),
    ),
    Guard(
        "a stream that misses a commit, gives one twice, or finds its files gone",
        (
            Mutant(
                "a stream goes on after its commit is undone",
                "check_known",
                (("", "return"),),
                (
                    "test_a_commit_that_was_read_and_undone_ends_the_stream",
                    "test_a_table_that_was_created_again_ends_the_stream",
                ),
            ),
            Mutant(
                "a place names no commit but its last",
                "StreamLook.reached",
                (("tuple(read[-RECENT:])", "()"),),
                (
                    "test_a_commit_before_the_place_that_a_rollback_undoes_ends_the_stream",
                    "test_a_restore_by_completion_undoes_what_a_fenced_stream_has_passed",
                ),
            ),
            Mutant(
                "a commit that comes below the place is not noticed",
                "StreamLook.missed",
                (("", "return None"),),
                ("test_a_commit_that_comes_below_the_place_ends_the_stream_and_is_named",),
            ),
            Mutant(
                "a commit that is gone from below the timeline is thought to be archived",
                "StreamLook.undone",
                (("or time in named", "or False"),),
                ("test_a_commit_before_the_place_that_a_rollback_undoes_ends_the_stream",),
            ),
            Mutant(
                "a part of a commit begins with its first file",
                "Stream._plan_commits",
                (("groups[first:last]", "groups[:last]"),),
                ("test_limits_cut_the_first_state_and_a_huge_commit_into_files",),
            ),
            Mutant(
                "archived commits are thought to have written nothing",
                "Stream._plan_commits",
                (("elif known.named is not None:", "else:"),),
                (
                    "test_rows_of_archived_commits_that_a_clustering_moved_are_in_the_joined_batch",
                ),
            ),
            Mutant(
                "a stream of version 6 passes pending writes",
                "look",
                (("safe_checkpoint(before, now, chosen, utc, clusterings)",
                  "max((i.time for i in now.commits), default=None)"),),
                ("test_version_6_stops_before_the_first_pending_write",),
            ),
            Mutant(
                "new columns are passed over",
                "Stream._check_schema",
                (("", "return"),),
                ("test_a_new_column_ends_the_stream_after_all_before_it_and_a_restart_goes_on",
                 "test_a_column_that_is_gone_is_named"),
            ),
            Mutant(
                "a stream holds nothing",
                "Stream._hold_at",
                (("", "return"),),
                ("test_services_spare_what_a_running_stream_has_not_read",),
                spark=True,
            ),
            Mutant(
                "a stream that has no commit behind it holds nothing",
                "Stream._hold_at",
                (("self._held.lease.move(found.state(at) or found.before_all())",
                  "if (state := found.state(at)) is not None: self._held.lease.move(state)"),),
                ("test_nothing_goes_while_the_first_batch_is_read",),
            ),
            Mutant(
                "a commit that was read in part is asked of the timeline alone",
                "StreamLook.files_at",
                (("return files if files and told else None", "return {}"),),
                ("test_a_part_of_a_commit_is_the_same_after_the_commit_was_archived",),
            ),
            Mutant(
                "a range that ends in the archive has the state of active commits alone",
                "changes",
                (("if late and beyond is None:", "if False:"),),
                ("test_a_range_that_ends_in_the_archive_is_refused_if_files_of_its_state_were_cleaned",
                 "test_a_range_that_ends_in_the_archive_is_read_beside_an_older_savepoint"),
            ),
            Mutant(
                "a batch takes its rows of now",
                "Stream._plan_commits",
                (("known = self._changes(found, begin, end.at)",
                  "known = self._changes(found, begin, found.timeline.commits[-1].time)"),),
                ("test_a_batch_that_failed_is_read_again_as_it_was",),
                spark=True,
            ),
        ),
    ),
    Guard(
        "a row that a log has replaced or deleted, or a row of a log that does not count",
        (
            Mutant(
                "rows with some columns have nulls in the others",
                "whole_rows",
                (("if not any(part.partial for part in parts):", "if True:"),),
                ("test_rows_lie_over_others_as_in_apache_hudi",),
            ),
            Mutant(
                "executors decode rows with some columns",
                "LogPart.place",
                ((" and not self.partial", ""),),
                ("test_a_block_says_whether_it_is_partial",),
            ),
            Mutant(
                "what lost lies below nothing",
                "_stacked",
                (("lowest[above] = lowest[below]", "pass"),),
                ("test_rows_lie_over_others_as_in_apache_hudi",),
            ),
            Mutant(
                "blocks of pending and of later instants count",
                "CountedInstants.__contains__",
                (("", "return True"),),
                ("test_only_blocks_of_completed_and_of_older_instants_count",),
            ),
            Mutant(
                "a rollback's block is passed over",
                "SliceLogs.parts",
                (("by_instant.pop(part.header.get(HeaderKey.TARGET_INSTANT_TIME, \"\"), None)",
                  "pass"),),
                ("test_a_rollback_takes_the_blocks_before_it_but_none_that_a_retry_writes_later",),
            ),
            Mutant(
                "what a log compaction replaced counts again",
                "_placed",
                (("if replaced is not None:", "if False:"),),
                ("test_a_log_compaction_stands_where_the_last_of_what_it_replaced_stood",),
            ),
            Mutant(
                "positions of another base file are believed",
                "LogPart._positions",
                (("RECORD_POSITIONS) != base_instant:", "RECORD_POSITIONS) is None:"),),
                ("test_positions_count_only_for_the_base_file_that_they_mean",),
            ),
            Mutant(
                "a log belongs to the slice in which its write began",
                "FileSystemView._with_logs",
                (("i.completion_time or i.time", "i.time"),),
                ("test_in_layout_2_a_log_belongs_to_the_slice_before_its_completion",),
            ),
            Mutant(
                "logs of writes that have not committed are in their slices",
                "without_failed_logs",
                (("", "return logs"),),
                ("test_in_layout_1_a_log_of_a_write_that_has_not_committed_is_in_no_slice",),
            ),
            Mutant(
                "a log that is gone is passed over",
                "check_logs",
                (("", "return"),),
                ("test_each_lost_log_of_a_golden_table_is_told_with_its_file",),
            ),
            Mutant(
                "a damaged block is passed over where no write can have torn it",
                "SliceLogs._of",
                (("path if self._whole else None", "None"),),
                ("test_a_damaged_block_is_told_where_a_log_is_of_one_write",),
            ),
            Mutant(
                "a log counts that its own commit does not name",
                "owned_by",
                (("if own or said.log_compacted", "if said.log_compacted"),),
                ("test_a_log_that_its_commit_does_not_name_is_of_no_slice",),
            ),
            Mutant(
                "a view that moves on asks no archive when an older log ended",
                "advance",
                (("archived_logs(moved, rewritten) - archived_logs(view, rewritten)", "False"),),
                ("test_a_view_that_moves_on_keeps_the_archived_log_that_ended_after_the_compaction",),
            ),
            Mutant(
                "a delete block holds ordering values that it changes",
                "LogFileWriter.marked",
                (("if wanted and SOFT_DELETE in self._schema.names:", "if False:"),),
                (
                    "test_a_delete_whose_values_a_block_would_change_is_a_marked_row",
                    "test_marked_rows_stand_among_the_others_at_their_places",
                ),
            ),
            Mutant(
                "blocks that nobody can merge are left out",
                "_check",
                (("if part.kind not in (*DATA, BlockType.DELETE):", "if False:"),),
                ("test_what_pyhudi_cannot_merge_is_refused_by_name",),
            ),
        ),
        unproven="That one merge gives the masked rows and the logs' rows is how the code is built: "
        "the query keeps it, and there is nothing to take away.",
    ),
    Guard(
        "a log that Apache Hudi's index does not see, or that masks the wrong row",
        (
            Mutant(
                "positions count from the start of each unit",
                "LogAppend._place",
                (("start += len(keys)", "pass"),),
                ("test_positions_count_through_the_row_groups_of_a_base_file",),
            ),
            Mutant(
                "rows without a position share the block of those that have one",
                "LogFileWriter._hold",
                (("self._flush()\n            self._places", "self._places"),),
                ("test_each_row_of_layout_2_has_its_position_and_new_keys_have_blocks_of_their_own",),
            ),
            Mutant(
                "a new key goes to a log under any index",
                "LogAppend._check_known",
                (("", "return"),),
                ("test_a_new_key_does_not_go_to_a_log_under_an_index_that_looks_keys_up",),
            ),
            Mutant(
                "a key that a base file has twice is logged where readers merge by key",
                "_copied",
                (("", "return None"),),
                (
                    "test_a_key_that_a_base_file_has_twice_makes_a_new_base_file",
                    "test_a_key_that_a_base_file_has_twice_is_refused_if_that_cannot_be_written_anew",
                ),
            ),
            Mutant(
                "positions tell the rows of a key apart beside a planned compaction",
                "LogGroups._copies",
                ((" and not compacts", ""),),
                ("test_copies_of_a_key_are_logged_only_where_positions_tell_them_apart",),
            ),
            Mutant(
                "a log of copies stays beside a compaction that was planned meanwhile",
                "run_operation",
                (("transaction.revived |= written.leaning", "pass"),),
                ("test_a_compaction_planned_meanwhile_takes_no_file_whose_copies_are_in_a_log",),
            ),
            Mutant(
                "a group with logs gets a new base file",
                "LogGroups.may_grow",
                (("", "return True"),),
                ("test_small_groups_take_new_keys_as_long_as_they_have_no_logs",),
            ),
            Mutant(
                "a key that a log has deleted counts as one of the table",
                "dead_keys",
                (("", "return {}"),),
                ("test_statements_insert_keys_that_a_log_has_deleted",),
            ),
            Mutant(
                "logs of archived commits delete nothing",
                "_has_deletes",
                (("", "return False"),),
                ("test_logs_of_archived_commits_are_merged_for_dead_keys_only_if_they_delete",),
            ),
            Mutant(
                "a row that comes too late goes to a log",
                "LateRows.among",
                (("", "return np.zeros(len(places), np.bool_)"),),
                ("test_a_row_after_a_delete_is_read_or_refused",),
            ),
            Mutant(
                "no log has a delete that always wins",
                "_has_forced_deletes",
                (("", "return False"),),
                ("test_a_late_row_of_a_deleted_key_is_written",),
            ),
            Mutant(
                "a write that brings a late row fails for good",
                "Retries._in_the_way",
                (("", "return frozenset()"),),
                ("test_a_late_row_of_a_deleted_key_is_written",),
            ),
            Mutant(
                "a write fails while another program compacts the logs in its way",
                "Retries._compacted",
                (("if self.count.retries == self.most:", "if True:"),),
                ("test_a_write_waits_for_the_program_that_compacts_the_logs_in_its_way",),
            ),
            Mutant(
                "a write fails if another program has compacted the logs in its way",
                "compacted_first",
                (("return True", "return bool(asked)"),),
                ("test_another_program_has_compacted_the_logs_in_the_way",),
            ),
            Mutant(
                "a row moves by the values of base files alone",
                "merged_values",
                (("", "return None"),),
                ("test_rows_move_out_of_logs_by_event_time",),
            ),
            Mutant(
                "a row that moves by several ordering values is in both partitions",
                "forced_deletes",
                (("ordering_values(incoming, name)", "_comparable(incoming, name)"),),
                ("test_a_row_leaves_its_partition_whatever_types_order_it",),
            ),
            Mutant(
                "a log of version 6 may bear the name of a slice that has ended",
                "check_compactions",
                (("now.layout == 1 and latest is not None and latest > slice_instant", "False"),),
                ("test_a_log_of_layout_1_in_a_slice_that_a_compaction_ended_is_a_conflict",),
            ),
            Mutant(
                "a row comes back to a group that a compaction takes up",
                "check_compactions",
                (("(group in leaning and latest not in known)", "False"),),
                ("test_a_row_that_came_back_to_a_group_is_a_conflict_with_a_compaction_of_it",),
            ),
            Mutant(
                "a dead key has a home in a group that is to be compacted",
                "homes_of",
                (("not in planned", "not in ()"),),
                ("test_a_key_that_comes_back_beside_a_planned_compaction_is_there_once",),
            ),
            Mutant(
                "a log of version 6 is not found by its marker",
                "_is_appended",
                (("", "return False"),),
                ("test_blocks_of_a_failed_write_in_a_log_of_others_are_taken_back_by_a_command",),
            ),
            Mutant(
                "a log that a plan names goes with a failed write",
                "staying_logs",
                (("(logs & _planned(table) if logs else set())", "set()"),),
                (
                    "test_a_log_of_a_failed_write_stays_as_long_as_a_pending_compaction_has_it_in_its_plan",
                ),
            ),
            Mutant(
                "a log of others goes with a failed write",
                "shared_logs",
                (("", "return set()"),),
                ("test_blocks_of_a_failed_write_in_a_log_of_others_are_taken_back_by_a_command",),
            ),
        ),
    ),
    Guard(
        "a writer without coordination that hides rows of others, or lets a compaction change them",
        (
            Mutant(
                "each writer draws an id for a new bucket",
                "_new_bucket",
                (("not write.only_logs", "True"),),
                ("test_racing_writers_of_the_same_buckets_both_commit",),
            ),
            Mutant(
                "a bucket is begun again under the id of a replaced group",
                "_new_bucket",
                (("not in write.view.replaced", "not in ()"),),
                ("test_a_bucket_whose_group_was_replaced_is_begun_again",),
            ),
            Mutant(
                "a log passes by a base file of its group",
                "let_logs_pass",
                (("ours.logged & theirs.logged", "ours.logged & theirs.updated"),),
                ("test_logs_of_one_group_pass_and_all_else_of_it_conflicts",),
            ),
            Mutant(
                "a log passes by the replacement of its partition",
                "let_logs_pass",
                (("group[0] not in theirs.replaced_partitions", "True"),),
                ("test_a_partition_that_was_replaced_conflicts_whatever_logs_came_with_it",),
            ),
            Mutant(
                "a pending compaction of a later log is no conflict",
                "check_order",
                (("", "return"),),
                ("test_a_pending_compaction_of_a_later_log_is_a_conflict_where_the_order_decides",),
            ),
            Mutant(
                "a row passes by a delete that it has not seen",
                "check_deletes",
                (("", "return"),),
                ("test_a_row_above_a_delete_that_it_has_not_seen_is_a_conflict",),
            ),
            Mutant(
                "a row passes by the deletes of a statement that it has not seen",
                "may_force",
                (("return deletes and", "return False and deletes and"),),
                ("test_a_row_above_a_delete_that_it_has_not_seen_is_a_conflict",),
            ),
            Mutant(
                "a log does not count its deletes that always win",
                "LogFileWriter.add",
                (("int(forced_deletes(self._files.spec, rows).sum())", "0"),),
                ("test_a_log_counts_its_deletes_that_always_win",),
            ),
            Mutant(
                "a statement passes by logs that came since",
                "_attempt",
                (("logs_pass=False", "logs_pass=True"),),
                ("test_a_statement_is_evaluated_again_if_rows_came_meanwhile",),
            ),
            Mutant(
                "a write that replaces groups may be one without coordination",
                "_of_the_write",
                (("operation in REPLACING", "False"),),
                ("test_what_cannot_be_one_is_refused_with_what_to_do",),
            ),
        ),
    ),
)  # fmt: skip
