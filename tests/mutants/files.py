"""Mutants of the guards around files: half ones, lost ones, late ones, and markers."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Guard, Mutant

FILES: Final = (
    Guard(
        "half a file under its final name",
        (
            Mutant(
                "a file is written under its own name",
                "LocalStorage._write_temporary",
                (
                    (
                        'temporary = f"{folder}/{TEMPORARY_PREFIX}{self._clock.uuid()}"',
                        "temporary = full",
                    ),
                ),
                (
                    "test_a_killed_writer_leaves_only_whole_files",
                    "test_a_failed_put_leaves_the_old_state_and_no_temporary",
                ),
            ),
            Mutant(
                "bytes are not synced",
                "LocalStorage._write_temporary",
                (("os.fsync(descriptor)", "pass"),),
                ("test_every_new_name_is_synced_before_the_put_returns",),
            ),
            Mutant(
                "names are not synced",
                "_sync_folder",
                (("", "return"),),
                ("test_every_new_name_is_synced_before_the_put_returns",),
            ),
            Mutant(
                "a taken name is taken again on a disk",
                "_link",
                (("", "os.replace(temporary, full)\nopen(temporary, 'w').close()\nreturn"),),
                ("test_one_of_many_concurrent_puts_wins_and_its_bytes_stay[local]",),
            ),
            Mutant(
                "a put to S3 has no condition",
                "S3Storage.put_if_absent",
                (('{"IfNoneMatch": "*"}', "{}"),),
                ("test_put_if_absent_refuses_a_taken_name_and_keeps_its_bytes[s3-first]",),
            ),
        ),
    ),
    Guard(
        "a temporary file of a killed process",
        (
            Mutant(
                "they stay",
                "sweep_temporaries",
                (("", "return"),),
                ("test_half_files_of_killed_writers_are_deleted_once_they_are_old",),
            ),
            Mutant(
                "young ones go as well",
                "sweep_temporaries",
                (("if now_ms - file.modified_ms >= OLD_MS]", "]"),),
                ("test_a_young_half_file_stays_beside_an_old_one",),
            ),
        ),
    ),
    Guard(
        "a store that throttles",
        (
            Mutant(
                "a request is not sent again",
                "Patience.again",
                (("", "return False"),),
                (
                    "test_a_throttled_request_goes_on_until_its_time_is_up",
                    "test_a_throttled_put_backs_off_and_lands",
                ),
            ),
            Mutant(
                "to be throttled uses the attempts up",
                "Patience.again",
                (("self.attempts - self.throttled >=", "self.attempts >="),),
                (
                    "test_being_told_to_slow_down_does_not_use_up_the_attempts",
                    "test_a_throttled_request_goes_on_until_its_time_is_up",
                ),
            ),
            Mutant(
                "attempts go on behind the limit",
                "Patience.again",
                (("if self.elapsed_s() + pause_s >= self._limit_s:", "if False:"),),
                (
                    "test_no_attempt_begins_after_the_limit",
                    "test_a_throttled_request_goes_on_until_its_time_is_up",
                ),
            ),
        ),
    ),
    Guard(
        "late listings",
        (
            Mutant(
                "a commit does not wait",
                "await_visible",
                (("", "return"),),
                ("test_a_commit_is_published_when_its_files_show_and_its_strays_do_not",),
            ),
        ),
    ),
    Guard(
        "a data file that a worker misses, since its commit was undone or replaced meanwhile",
        (
            Mutant(
                "each missed file is a lost one",
                "end_of",
                (("", "return None"),),
                ("test_a_file_that_a_worker_misses_is_a_lost_race_where_it_counts_no_more",),
            ),
            Mutant(
                "each missed file is a lost race",
                "end_of",
                (("\n    return None\n", '\n    return "undone with its commit"\n'),),
                (
                    "test_a_file_of_an_archived_commit_that_a_worker_misses_is_lost",
                    "test_a_file_that_a_worker_missed_and_that_is_there_is_no_lost_race",
                ),
            ),
        ),
    ),
    Guard(
        "a data file that was lost or cut off, and a table that changes between the listing of its timeline and that of its files",
        (
            Mutant(
                "what commits name is not looked for",
                "FileSystemView._check",
                (("", "return"),),
                (
                    "test_a_file_that_a_commit_names_and_that_is_gone_is_told_with_file_and_commit",
                    "test_a_clean_between_the_two_listings_is_noticed_and_is_no_corruption",
                ),
            ),
            Mutant(
                "sizes do not count",
                "lost_files",
                ((" or found < size", ""),),
                ("test_a_file_that_is_shorter_than_its_commit_says_is_told_at_the_listing",),
            ),
            Mutant(
                "a commit that was undone between the listings is passed over",
                "promises_of",
                (("if undone:", "if False:"),),
                ("test_a_commit_rolled_back_between_the_two_listings_is_noticed",),
            ),
        ),
    ),
    Guard(
        "time travel to slices that a clean has partly deleted",
        (
            Mutant(
                "slices before the first active commit of a group are not missed",
                "lost_files",
                (("passed = previous and", "passed = False and"),),
                ("test_time_travel_misses_the_cleaned_slice_of_an_archived_commit",),
            ),
            Mutant(
                "a base file that a compaction replaced is not missed",
                "lost_files",
                (("_base_before(stat) if has_logs", "None if has_logs"),),
                ("test_time_travel_misses_the_cleaned_base_file_of_a_slice_that_had_logs",),
            ),
            Mutant(
                "logs without a base file that a compaction merged are not missed",
                "lost_files",
                (("gone.add(key)", "pass"),),
                ("test_time_travel_misses_the_cleaned_logs_of_a_slice_that_had_nothing_else",),
            ),
            Mutant(
                "logs of an active commit are missed before it",
                "lost_files",
                (("gone - _begun(promises)", "gone"),),
                ("test_time_travel_misses_the_cleaned_logs_of_a_slice_that_had_nothing_else",),
            ),
            Mutant(
                "replaced groups are not missed",
                "lost_files",
                (("if first and gone:", "if False and gone:"),),
                (
                    "test_time_travel_misses_a_group_of_an_archived_commit_that_was_replaced_and_cleaned",
                ),
            ),
            Mutant(
                "slices beside a savepoint that outlived them are not missed",
                "lost_files",
                (("previous not in promises.commits", "stat is oldest[key][1]"),),
                (
                    "test_time_travel_misses_the_cleaned_slice_of_a_commit_archived_beyond_a_savepoint",
                ),
            ),
            Mutant(
                "a file that is lost now lets those of the past go",
                "list_view",
                (
                    (
                        "view.missing()",
                        "[f for ids in lost.values() for each in ids.values() for f in each]",
                    ),
                ),
                (
                    "test_time_travel_misses_a_cleaned_slice_also_where_a_file_of_now_is_lost",
                    "test_a_state_of_the_past_is_given_exactly_or_refused",
                ),
            ),
            Mutant(
                "a file that an archived commit may have replaced never counted",
                "LostFile.promised",
                (("(as_of is not None and as_of < self.until)", "False"),),
                (
                    "test_a_cleaned_file_counts_until_an_archived_commit_may_have_replaced_it",
                    "test_a_cleaned_log_counts_until_an_archived_commit_may_have_replaced_it",
                ),
            ),
            Mutant(
                "a file that an archived commit has replaced is missed",
                "LostFile.promised",
                (("", "return True"),),
                (
                    "test_a_cleaned_file_counts_until_an_archived_commit_may_have_replaced_it",
                    "test_a_cleaned_log_counts_until_an_archived_commit_may_have_replaced_it",
                ),
            ),
        ),
    ),
    Guard(
        "time travel to a commit that is archived",
        (
            Mutant(
                "a group that a clean has taken is not missed",
                "is_whole",
                (("if sizes.keys() != state.files.keys():", "if False:"),),
                ("test_a_state_of_which_a_clean_took_a_file_is_refused_and_the_earliest_is_named",),
            ),
            Mutant(
                "another file of the group, or a shorter one, will do",
                "is_whole",
                (
                    (
                        "sizes[g][0] == path and sizes[g][1] >= size",
                        "sizes[g][0]",
                    ),
                ),
                ("test_a_file_that_is_gone_or_cut_off_refuses_the_state",),
            ),
        ),
    ),
    Guard(
        "an archiver that deletes instants during a listing: an older one is seen, a newer one is not",
        (
            Mutant(
                "a torn listing is believed",
                "check_not_torn",
                (("", "return"),),
                ("test_a_listing_torn_by_an_archiver_hides_no_archived_commit",),
            ),
        ),
    ),
    Guard(
        "a data file that is gone or cut off when a task reads it",
        (
            Mutant(
                "a merge does not say that its base file is gone",
                "OldFile.__init__",
                (('raise damaged(path, "is not there") from error', "raise"),),
                ("test_a_missing_base_file_is_table_corruption_with_its_path",),
            ),
            Mutant(
                "a merge does not say that its base file is cut off",
                "OldFile.__init__",
                (("raise _corrupt(path, str(error)) from error", "raise"),),
                ("test_a_base_file_that_is_no_parquet_is_table_corruption",),
            ),
            Mutant(
                "a lookup does not say that a file is gone",
                "readable",
                (('raise damaged(path, "is not there") from error', "raise"),),
                ("test_a_damaged_file_is_told_by_its_path",),
            ),
            Mutant(
                "a lookup does not say that a file is cut off",
                "readable",
                (
                    (
                        'raise damaged(path, f"is not a whole Parquet file ({reason})") from error',
                        "raise",
                    ),
                ),
                ("test_a_damaged_file_is_told_by_its_path",),
            ),
            Mutant(
                "the driver does not list once more",
                "end_of",
                (("VIEWS.forget(table.storage)", "pass"),),
                (
                    "test_a_file_that_a_worker_misses_is_a_lost_race_where_it_counts_no_more",
                    "test_a_file_of_an_archived_commit_that_a_worker_misses_is_lost",
                ),
            ),
        ),
    ),
    Guard(
        "a table that is upgraded or downgraded between the reads of its properties and its timeline",
        (
            Mutant(
                "the properties are not read once more",
                "_check_layout",
                (("", "return"),),
                (
                    "test_a_table_that_changed_its_layout_since_it_was_opened_is_not_taken_for_empty",
                    "test_a_table_that_is_being_moved_to_another_layout_is_not_taken_for_empty",
                ),
            ),
        ),
    ),
    Guard(
        "a file that a commit does not name, or that a failed write left below the active timeline",
        (
            Mutant(
                "files that no commit names are shown",
                "Promises.disowns",
                (("", "return False"),),
                ("test_of_two_files_of_one_commit_the_one_that_it_names_is_shown",),
            ),
            Mutant(
                "late files below the timeline are data",
                "strays",
                (("", "return frozenset()"),),
                (
                    "test_a_file_that_came_late_and_that_no_archived_commit_names_is_left_out",
                    "test_a_file_of_an_instant_that_a_rollback_names_is_left_out",
                ),
            ),
            Mutant(
                "a late state of a failed write hides archived commits",
                "_archived",
                (("if timeline.commits:", "if timeline.commits:\n        return frozenset()"),),
                ("test_a_late_state_of_a_failed_write_hides_no_archived_commit",),
            ),
            Mutant(
                "a late state begins the timeline",
                "first_write",
                (("", "return timeline.first_time"),),
                (
                    "test_a_state_that_the_archive_has_passed_is_not_the_first_write",
                    "test_a_late_plan_hides_no_archived_commit_that_cannot_be_undone",
                ),
            ),
        ),
    ),
    Guard(
        "files of failed, doubled or late attempts",
        (
            Mutant(
                "files that nobody reports stay",
                "Transaction._sealed",
                (("stray = sorted(set(self._marked()) - kept)", "stray = list[str]()"),),
                ("test_files_of_other_attempts_are_deleted_before_the_commit",),
            ),
            Mutant(
                "nobody waits for attempts",
                "RunningInstant._falls_quiet",
                (("return attempts_ended(timeout_s)", "return True"),),
                (
                    "test_attempts_that_do_not_end_fail_the_write_and_leave_it_to_the_next_writer",
                    "test_an_abort_deletes_nothing_while_attempts_may_write",
                ),
            ),
            Mutant(
                "a data file is begun before its marker",
                "BaseFileWriter.__init__",
                (("files.markers.announce(self._marker.render())", "pass"),),
                (
                    "test_no_data_file_is_written_without_its_marker",
                    "test_markers_and_partition_metadata_are_where_hudi_looks",
                ),
            ),
        ),
    ),
    Guard(
        "two tables of one application with the same instant",
        (
            Mutant(
                "markers are found by their instant",
                "MarkerService.open",
                (('f"{instant}-{next(self._numbers)}"', "str(instant)"),),
                ("test_two_tables_with_one_instant_do_not_meet",),
            ),
            Mutant(
                "attempts are found by their instant",
                "tracked_key",
                (('f"{instant} {root}"', "str(instant)"),),
                ("test_writes_of_two_tables_with_one_instant_are_two_to_the_tracker_of_attempts",),
                spark=True,
            ),
        ),
    ),
    Guard(
        "a Python worker that outlives its attempt, as in Spark 4 if the input fails",
        (
            Mutant(
                "the worker locks nothing",
                "held.run",
                (("fcntl.lockf(descriptor, fcntl.LOCK_EX)", "pass"),),
                (
                    "test_a_worker_locks_its_attempt_while_it_works_and_says_who_it_is",
                    "test_a_worker_whose_attempt_ends_while_it_begins_writes_nothing",
                ),
            ),
            Mutant(
                "a worker goes on whose attempt has ended",
                "held.run",
                (("if not os.fstat(descriptor).st_nlink:", "if False:"),),
                ("test_a_worker_whose_attempt_ends_while_it_begins_writes_nothing",),
            ),
        ),
        "That the attempt's end waits for the lock: Spark 3.5, on which these tests run, waits by "
        "itself. `test_an_attempt_whose_input_fails_is_waited_for_while_its_worker_runs` is its "
        "test on Spark 4.",
    ),
    Guard(
        "a marker that comes after the reconcile has looked",
        (
            Mutant(
                "markers are taken behind the seal",
                "MarkerLog.ask",
                (("if self._refusal is not None:", "if False:"),),
                ("test_after_the_seal_every_request_is_refused",),
            ),
            Mutant(
                "nothing is sealed",
                "RunningInstant._falls_quiet",
                (("self._markers is not None and not self._markers.seal(timeout_s)", "False"),),
                (
                    "test_a_list_that_is_being_written_for_too_long_fails_the_write_and_deletes_nothing",
                    "test_an_abort_seals_before_it_deletes_and_drops_afterwards",
                ),
            ),
        ),
    ),
    Guard(
        "a lost put of markers that lands late, over newer ones",
        (
            Mutant(
                "the file is written again at once",
                "MarkerLog._done",
                (("started + self._storage.put_timeout_s if unknown else now", "now"),),
                ("test_a_marker_of_unknown_outcome_is_written_again_and_its_file_rests",),
            ),
            Mutant(
                "a successor does not know which files rest",
                "MarkerLog.successor",
                (("log._free_at = self._free_at", "pass"),),
                ("test_a_file_whose_put_was_lost_rests_for_a_successor_too",),
            ),
        ),
    ),
    Guard(
        "a stranger on the marker server's port, or a slow or greedy client",
        (
            Mutant(
                "any token will do",
                "MarkerServer._guarded",
                (('hmac.compare_digest(given, b"Bearer " + self._token)', "True"),),
                (
                    "test_a_wrong_token_gets_nothing_and_learns_nothing",
                    "test_no_token_at_all_is_a_wrong_token",
                ),
            ),
            Mutant(
                "bodies of any size are read",
                "MarkerServer._markers",
                (("if length > self._limits.body_bytes:", "if False:"),),
                ("test_a_body_too_large_is_refused_by_its_length_alone",),
            ),
            Mutant(
                "bodies are read together without a bound",
                "MarkerServer._markers",
                (("if self._reading + length > self._limits.reading_bytes:", "if False:"),),
                ("test_bodies_that_are_read_at_a_time_are_bounded",),
            ),
            Mutant(
                "bodies may take any time",
                "MarkerServer._markers",
                (
                    (
                        "await asyncio.wait_for(request.read(), self._limits.body_s)",
                        "await request.read()",
                    ),
                ),
                ("test_a_body_that_trickles_is_given_up",),
            ),
            Mutant(
                "connections have no bound",
                "MarkerServer._close_idle",
                (("[: max(0, excess)]", "[:0]"),),
                ("test_connections_beyond_the_bound_are_hung_up_on",),
            ),
            Mutant(
                "the queue has no bound",
                "MarkerLog.ask",
                (("if full or self._queued_bytes", "if False and self._queued_bytes"),),
                ("test_a_full_queue_refuses_instead_of_growing",),
            ),
            Mutant(
                "any name is a marker",
                "marker_fault",
                (("", "return None"),),
                (
                    "test_only_a_line_that_leads_to_a_data_file_of_the_table_is_a_marker",
                    "test_malformed_markers_are_refused_and_nothing_is_written",
                ),
            ),
        ),
        "Connections that bring no request: aiohttp 3.14 ends them by itself as well, so no test "
        "tells. `test_a_client_that_never_ends_its_header_is_hung_up_on` is there for older ones.",
    ),
)
