"""Mutants of the guards around table services: what a clean must not delete, and when."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Guard, Mutant

SERVICES: Final = (
    Guard(
        "a query's savepoint that outlives the query, or goes while another one reads",
        (
            Mutant(
                "a query that has ended gets a savepoint",
                "save_for_query",
                (("if state.instant in _saving(writer):", "if True:"),),
                ("test_a_query_that_has_ended_meanwhile_gets_none",),
            ),
            Mutant(
                "the first query that ends takes the savepoint of all",
                "_saving",
                (("", "return set()"),),
                ("test_a_savepoint_lasts_as_long_as_the_queries_of_its_commit",),
            ),
            Mutant(
                "a user's savepoint goes with a query",
                "put_savepoint",
                ((" and (there.comment != OF_QUERY or comment == OF_QUERY)", ""),),
                ("test_a_user_who_saves_the_commit_of_a_query_keeps_it_after_the_query",),
            ),
        ),
    ),
    Guard(
        "a clean that deletes what a query, a savepoint, a write or a plan reads",
        (
            Mutant(
                "leases hold nothing",
                "leased_files",
                (("", "return {}"),),
                ("test_a_clean_spares_what_a_query_reads_until_its_lease_ends",),
            ),
            Mutant(
                "a lease holds what completed after its query began",
                "ReadState.on",
                (("", "return timeline"),),
                ("test_a_commit_that_completed_later_is_not_part_of_what_the_query_reads",),
            ),
            Mutant(
                "what has just become old goes at once",
                "plan_clean",
                (("in facts.recent", "in ()"),),
                ("test_a_file_that_has_just_become_old_stays_a_moment",),
            ),
            Mutant(
                "by commits, what has just become old goes at once",
                "earliest_kept",
                (("", "return earliest_retained(timeline, retention, since)"),),
                ("test_by_commits_what_has_just_become_old_stays_a_moment",),
            ),
            Mutant(
                "a clean that left files for the next one says that it left none",
                "CleanPlan.cut",
                ((", whole=False", ""),),
                ("test_a_table_that_was_never_serviced_is_served_in_steps",),
            ),
            Mutant(
                "savepoints and plans hold nothing",
                "_held",
                (("", "return {}"),),
                ("test_a_savepoint_keeps_its_files",),
            ),
            Mutant(
                "pending writes keep nothing",
                "_first_pending",
                (("", "return None"),),
                ("test_a_pending_write_keeps_what_it_may_read",),
            ),
            Mutant(
                "a plan that was found is carried out as it stands",
                "_looked_at",
                (("if path_in(partition, name) in counts:", "if False:"),),
                ("test_a_plan_that_was_found_never_deletes_what_counts_now",),
            ),
            Mutant(
                "a plan that others may not know is carried out at once",
                "_clean",
                (("        lock.check()\n        instant =", "        instant ="),),
                (
                    "test_a_cleaner_that_stood_still_before_its_plan_deletes_nothing_that_was_saved_meanwhile",
                ),
            ),
            Mutant(
                "a plan that was found is looked at beside the lock",
                "finish_clean",
                (
                    ("with writer.locked(instant.time):", "if True:"),
                    ("with kept(writer.lock):", "if True:"),
                ),
                ("test_nobody_saves_a_commit_while_a_plan_that_was_found_is_looked_at",),
            ),
            Mutant(
                "a plan ends though a query holds one of its files",
                "_stays_pending",
                (("", "return False"),),
                ("test_a_plan_stays_pending_for_what_a_query_reads",),
            ),
            Mutant(
                "a plan that another has carried out is carried out again",
                "finish_clean",
                ((" or all(i.time != instant.time for i in pending_cleans(timeline))", ""),),
                ("test_a_clean_that_another_has_ended_is_not_carried_out_once_more",),
            ),
        ),
    ),
    Guard(
        "a clustering that replaces rows which a write has changed since its plan",
        (
            Mutant(
                "commits since the plan are not looked at",
                "RunningClustering._changed",
                (("", "return {}"),),
                ("test_a_group_that_a_write_changed_meanwhile_is_left_out",),
            ),
            Mutant(
                "a clustering carries out what it saw before it had the lock",
                "_planned_and_done",
                (
                    (
                        "        latest = proposal_of(run.writer, now, rules, ranges, only)\n        return",
                        "        return",
                    ),
                ),
                ("test_what_commits_while_the_lock_is_awaited_is_part_of_the_plan",),
            ),
            Mutant(
                "a clustering whose owner is dead stays",
                "lost_its_owner",
                (("", "return False"),),
                ("test_a_plan_of_a_dead_owner_is_rolled_back_and_made_again",),
            ),
            Mutant(
                "a clustering whose owner lives is taken back",
                "lost_its_owner",
                (("", "return True"),),
                (
                    "test_cleaning_failed_writes_takes_a_dead_clustering_back_and_leaves_a_living_one",
                ),
            ),
            Mutant(
                "an inflight file that landed late stays",
                "own_clusterings",
                (("return planned + late", "return planned"),),
                ("test_an_inflight_file_that_landed_after_the_rollback_is_rolled_back_too",),
            ),
            Mutant(
                "writes that run are not looked at",
                "announced",
                (("", "return {}"),),
                ("test_a_group_that_a_running_write_changes_is_left_to_it",),
            ),
            Mutant(
                "a run that another program took back is committed too",
                "RunningClustering._left_out",
                (("if was_rolled_back(self.table, now, self.instant):", "if False:"),),
                ("test_a_clustering_that_apache_hudi_took_over_is_not_committed_twice",),
            ),
            Mutant(
                "a write leaves its groups in the plan",
                "leave_plans",
                (("", "return"),),
                ("test_a_write_takes_its_group_out_of_the_plan_before_it_commits",),
            ),
            Mutant(
                "a plan is put again after the lease on the lock",
                "leave_plans",
                (("lock.check(table.storage.put_timeout_s)", "pass"),),
                ("test_a_write_that_lost_its_lock_leaves_the_plan_as_it_is",),
            ),
        ),
    ),
    Guard(
        "a clustering that loses rows of a log, brings deleted ones back, or takes rows out of their "
        "bucket",
        (
            Mutant(
                "a clustering reads base files alone",
                "_opened",
                (("of.base is not None and not of.logs", "of.base is not None"),),
                ("test_a_golden_table_has_the_same_rows_after_its_clustering",),
            ),
            Mutant(
                "commits between a plan and its request are not looked at",
                "RunningClustering.planned",
                (("self.timeline = timeline", "self.timeline = writer.table.timeline()"),),
                ("test_a_log_that_came_between_the_plan_and_its_request_leaves_its_group_out",),
            ),
            Mutant(
                "a clustering replaces what a compaction has",
                "RunningClustering._left_out",
                ((" | compacting_groups(self.table, now)", ""),),
                ("test_a_group_that_a_compaction_took_up_meanwhile_is_left_to_it",),
            ),
            Mutant(
                "a plan that lacks a log is carried out",
                "_is_as_planned",
                ((" and logs <= named", ""),),
                ("test_a_slice_with_a_log_that_the_plan_of_apache_hudi_lacks_is_left",),
            ),
            Mutant(
                "the files of buckets are clustered",
                "has_buckets",
                (("", "return False"),),
                ("test_tables_with_buckets_are_refused_though_no_option_says_so",),
            ),
        ),
    ),
    Guard(
        "a compaction that misses a log, or merges one twice",
        (
            Mutant(
                "a plan of a compaction stays though a commit came meanwhile",
                "requested_compaction",
                (("not shown.since(now) and ", ""),),
                ("test_a_plan_beside_which_a_writer_without_the_lock_commits_is_taken_back",),
            ),
            Mutant(
                "a slice is planned twice",
                "compacting_groups",
                (("found |= {(o.partition_path, o.file_id): why for o in plan.operations}", ""),),
                ("test_the_logs_of_a_group_of_another_plan_wait_for_it",),
            ),
            Mutant(
                "a plan that cannot be read hides what it has",
                "unreadable_plan",
                (("pending not in readable", "False"),),
                ("test_nothing_is_planned_beside_a_plan_that_cannot_be_read",),
            ),
            Mutant(
                "version 6 plans a compaction beside a write",
                "_waits",
                (("older_writes(now) if now.layout == 1 else []", "list[Instant]()"),),
                ("test_a_plan_waits_for_writes_in_layout_1_alone",),
            ),
        ),
    ),
    Guard(
        "two runs of one compaction",
        (
            Mutant(
                "a compaction that lives is run again",
                "runner_of",
                (("return Runner.ALIVE\n    if not begun", "pass\n    if not begun"),),
                ("test_a_run_waits_for_another_and_follows_it_when_that_is_dead",),
            ),
            Mutant(
                "a compaction whose runner is dead stays",
                "runner_of",
                (("return Runner.DEAD", "return Runner.ALIVE"),),
                ("test_a_run_waits_for_another_and_follows_it_when_that_is_dead",),
            ),
            Mutant(
                "a plan goes though a log names it",
                "_names_a_log",
                (("", "return False"),),
                ("test_a_plan_of_layout_1_stays_if_a_log_names_it",),
            ),
            Mutant(
                "a compaction that was begun without a heartbeat is run again",
                "RunningCompaction.claimed",
                (("runner is Runner.UNKNOWN and not takes_over", "False"),),
                ("test_a_run_that_begun_without_a_heartbeat_is_followed_only_by_name",),
            ),
            Mutant(
                "a compaction that was taken back goes on",
                "RunningCompaction._was_taken",
                (("", "return False"),),
                ("test_a_run_that_was_only_slow_touches_nothing_of_the_run_that_followed",),
            ),
            Mutant(
                "a slow compaction deletes the files of the run that followed",
                "RunningCompaction._is_own",
                (("", "return True"),),
                ("test_a_run_that_was_only_slow_touches_nothing_of_the_run_that_followed",),
            ),
            Mutant(
                "files of a slow compaction stay beside those of the next run",
                "RunningCompaction.complete",
                (("if gone:", "if False:"),),
                ("test_a_group_whose_base_file_an_earlier_write_replaced_meanwhile_is_left_out",),
            ),
        ),
    ),
    Guard(
        "a compaction that hides a newer base file, or brings undone rows back",
        (
            Mutant(
                "a compaction hides a base file that was written meanwhile",
                "RunningCompaction._changed",
                (("if theirs.time < self.instant:", "if False:"),),
                ("test_a_group_whose_base_file_an_earlier_write_replaced_meanwhile_is_left_out",),
            ),
            Mutant(
                "a compaction commits rows that were undone",
                "RunningCompaction._left_out",
                (("if undone := meanwhile.undone():", "if undone := list[InstantTime]():"),),
                ("test_rows_of_a_commit_that_was_undone_meanwhile_are_not_committed",),
            ),
            Mutant(
                "a compaction hides columns that came with an earlier instant",
                "have_moved",
                (("if SchemaHistory(table, now, time).current() != version:", "if False:"),),
                ("test_a_column_of_an_older_instant_that_came_while_a_compaction_ran_stays",),
            ),
            Mutant(
                "a compaction writes names that came while it ran",
                "have_moved",
                (
                    (
                        "version is None and have_ids(table, now) and not have_ids(table, began)",
                        "False",
                    ),
                ),
                ("test_a_compaction_during_which_the_columns_change_runs_again",),
            ),
            Mutant(
                "a compaction writes names that came after its plan",
                "written_columns",
                (("time if have_ids(table, timeline) else None", "None"),),
                ("test_a_compaction_that_was_planned_before_a_change_of_columns_keeps_the_rows",),
            ),
            Mutant(
                "a base file and a compaction of its group are no conflict",
                "_unless_swept",
                (("if both:", "if False:"),),
                ("test_a_log_is_no_conflict_and_a_base_file_of_the_same_group_is_one",),
            ),
        ),
    ),
    Guard(
        "a log compaction whose log hides a newer row, or belongs to another slice",
        (
            Mutant(
                "a log compaction is planned beside a write",
                "slices_to_compact",
                (("(running := running_writes(now))", "(running := list[Instant]())"),),
                ("test_a_log_compaction_waits_for_writes_that_began_before_it",),
            ),
            Mutant(
                "a plan of a log compaction stays though a write has begun",
                "_crossed",
                (("return bool(running_writes(shown))", "return False"),),
                ("test_a_log_compaction_waits_for_writes_that_began_before_it",),
            ),
            Mutant(
                "a log compaction runs beside a write that began before it",
                "RunningLogCompaction.waits",
                (("if not older:", "if True:"),),
                ("test_a_log_compaction_waits_for_writes_that_began_before_it",),
            ),
            Mutant(
                "a log compaction passes a log of an older write over",
                "RunningLogCompaction._changed",
                (("if theirs.time < self.instant:", "if False:"),),
                ("test_a_group_to_which_an_older_write_added_a_log_is_left_out",),
            ),
            Mutant(
                "a plan of a log compaction is run though it misses a log",
                "unfit",
                (("not in named]", "not in named and False]"),),
                ("test_a_group_to_which_an_older_write_added_a_log_is_left_out",),
            ),
            Mutant(
                "a log compaction writes beside a compaction of its group",
                "RunningLogCompaction._taken_up",
                (("found |= dict.fromkeys(groups & ours, why)", "pass"),),
                ("test_a_group_that_others_took_up_meanwhile_is_left_out",),
            ),
            Mutant(
                "a log compaction writes beside a new base file, or into a replaced group",
                "RunningLogCompaction._changed",
                (("footprint.rebased | footprint.compacted | replaced", "frozenset[Group]()"),),
                ("test_a_group_that_others_took_up_meanwhile_is_left_out",),
            ),
            Mutant(
                "a late log of a group that a log compaction left out counts",
                "without_disowned_logs",
                (("", "return logs"),),
                (
                    "test_a_late_log_of_a_group_that_was_left_out_does_not_count",
                    "test_a_log_that_a_log_compaction_left_out_is_in_no_slice",
                ),
            ),
            Mutant(
                "a view keeps a log that a log compaction has left out meanwhile",
                "advance",
                (
                    (
                        "if without_disowned_logs(logs, {instant.time: metadata}, view.own_logs) is not logs:",
                        "if False:",
                    ),
                ),
                ("test_a_view_is_listed_again_if_a_log_compaction_left_out_a_log_that_it_has",),
            ),
            Mutant(
                "a compaction merges a late log that a plan of Apache Hudi names",
                "_owned",
                (("", "return lambda log: True"),),
                ("test_a_compaction_of_apache_hudi_that_names_such_a_log_does_not_merge_it",),
            ),
            Mutant(
                "a log compaction copies rows that are read in other columns then",
                "older_logs",
                (("if not are_same[time]:", "if False:"),),
                (
                    "test_logs_of_columns_with_ids_are_merged_alone_if_all_are_of_the_newest_columns",
                    "test_a_plan_that_names_logs_of_older_columns_leaves_them",
                ),
            ),
        ),
    ),
    Guard(
        "a reversal of a clustering that loses a row, or brings one back",
        (
            Mutant(
                "what was changed since the clustering is replaced all the same",
                "_outputs",
                (("if changed or (partition, stat.file_id) in view.replaced:", "if False:"),),
                ("test_it_stays_if_another_write_has_changed_its_files",),
            ),
            Mutant(
                "commits during the reversal are not looked at",
                "_Reversal.before",
                (("= taken, plan.now", "= taken, writer.table.timeline()"),),
                ("test_it_stays_if_a_commit_comes_between_its_plan_and_its_request",),
            ),
            Mutant(
                "a clustering is taken back whose files count as newer",
                "_clustering",
                (("if found[0].time >= time_before(write.instant):", "if False:"),),
                ("test_it_stays_if_it_was_planned_after_the_write_began",),
            ),
            Mutant(
                "a write takes back that loses against another commit as well",
                "_planned",
                (("if other.time != theirs.time and judge(", "if False and judge("),),
                ("test_it_stays_if_the_write_would_lose_against_another_commit_as_well",),
            ),
            Mutant(
                "a write that emptied a file brings its rows back",
                "_check_merged",
                (("", "return"),),
                ("test_it_stays_if_the_write_left_a_file_without_rows",),
            ),
            Mutant(
                "writers of Apache Hudi that began after a later commit miss the reversal",
                "_Reversal.check_newest",
                (("", "return"),),
                ("test_it_stays_if_a_later_commit_completes_during_the_reversal",),
            ),
        ),
    ),
    Guard(
        "a service after a commit that gets in the way of others",
        (
            Mutant(
                "a clean is taken over whose program may live",
                "_is_due",
                (("if any(", "if False and any("),),
                ("test_a_clean_that_somebody_may_be_carrying_out_is_left_alone_for_a_while",),
            ),
            Mutant(
                "it waits for the lock as long as a write does",
                "run_inline",
                (
                    (
                        "min(writer.policy.lock_timeout_s, LOCK_WAIT_S)",
                        "writer.policy.lock_timeout_s",
                    ),
                ),
                ("test_it_does_not_wait_long_for_a_lock",),
            ),
            Mutant(
                "each clustering rewrites the whole table again",
                "check_repeatable",
                (("", "return"),),
                ("test_what_would_rewrite_the_whole_table_each_time_is_refused",),
            ),
            Mutant(
                "a clustering comes after each commit",
                "cluster_inline",
                ((" or any(_is_clustering(table, timeline, each) for each in recent)", ""),),
                ("test_every_so_many_commits_the_small_files_become_one",),
            ),
            Mutant(
                "a clustering begins groups after its time",
                "_carried_out",
                (
                    (
                        "if begun and run.is_over:",
                        "if False and run.is_over:",
                    ),
                ),
                ("test_after_its_budget_a_round_begins_no_new_group",),
            ),
        ),
    ),
    Guard(
        "a restore that takes away what another writes, keeps or has not finished",
        (
            Mutant(
                "writers that live do not stop a restore",
                "_refuse_living",
                (("", "return"),),
                ("test_living_writers_are_named_and_nothing_happens",),
            ),
            Mutant(
                "queries with a lease do not stop a restore",
                "_refuse_readers",
                (("", "return"),),
                ("test_a_query_that_reads_what_would_go_is_named_unless_it_may_fail",),
            ),
            Mutant(
                "a restore is begun though others have committed since its plan",
                "_refuse_overtaken",
                (("", "return"),),
                (
                    "test_a_restore_that_stood_still_before_its_plan_undoes_nothing_that_others_build_on",
                ),
            ),
            Mutant(
                "commits with a savepoint are undone",
                "plan_restore",
                (("if kept := sorted(", "if kept := () and sorted("),),
                ("test_a_commit_with_a_savepoint_is_not_undone",),
            ),
            Mutant(
                "a restore does not look whether its goal is whole",
                "_check_whole",
                (("", "return"),),
                (
                    "test_a_cleaned_commit_cannot_be_restored",
                    "test_a_commit_whose_later_ones_are_archived_cannot_be_restored",
                ),
            ),
        ),
    ),
    Guard(
        "an archive that takes away what a reader, a writer or a conflict check still needs",
        (
            Mutant(
                "a clean names a commit after a replace of which files stay",
                "CleanPlan.names_too_late",
                (("", "return False"),),
                ("test_a_clean_names_the_replace_commit_of_which_a_query_reads_files",),
            ),
            Mutant(
                "a clean of some partitions forgets what others have",
                "_left_out",
                (("", "return None"),),
                ("test_a_clean_of_some_partitions_names_a_replace_commit_of_others",),
            ),
            Mutant(
                "the states that a clean names are not kept whole",
                "earliest_kept",
                (("first = first_from(timeline, left)", "first = None"),),
                ("test_a_clean_of_some_partitions_names_a_replace_commit_of_others[v9-commits]",),
            ),
            Mutant(
                "a clean names states that an earlier one took apart",
                "_left",
                (("return max(plan.left, InstantTime(named))", "return plan.left"),),
                ("test_a_clean_names_nothing_before_what_the_last_one_named",),
            ),
            Mutant(
                "a view believes that by versions all states are whole",
                "_cleaned",
                (("all(_instant_of(name) < earliest for name in names)", "True"),),
                ("test_a_clean_of_some_partitions_names_a_replace_commit_of_others[v9-versions]",),
            ),
            Mutant(
                "instants are archived past a savepoint, a pending instant or a query",
                "_stop",
                (("", "return None"),),
                (
                    "test_it_stops_at_a_savepoint_until_that_is_deleted",
                    "test_what_a_running_query_is_pinned_to_stays_until_its_lease_ends",
                ),
            ),
            Mutant(
                "an instant that an archiver left in both places is archived twice",
                "_move",
                ((" if i.time not in known}", "}"),),
                ("test_what_an_archiver_left_the_next_one_finishes",),
            ),
            Mutant(
                "a compaction is archived before a late file of a group that it has left out",
                "disowned_files",
                (("", "return []"),),
                (
                    "test_a_late_file_of_a_group_that_was_left_out_goes_before_its_compaction_is_archived",
                    "test_a_late_log_does_not_count_when_its_log_compaction_is_archived",
                ),
            ),
            Mutant(
                "a late file goes though a plan of Apache Hudi has it",
                "_held_disowned",
                (("", "return None"),),
                ("test_a_log_compaction_stays_on_the_timeline_while_a_plan_has_its_late_log",),
            ),
            Mutant(
                "below the timeline each file of a compaction counts that names none",
                "_named",
                (("(names or merged)", "names"),),
                (
                    "test_a_file_that_comes_after_the_archive_does_not_count_though_the_commit_names_none",
                ),
            ),
            Mutant(
                "manifests above the newest one are forgotten",
                "adopt_later_manifests",
                (("", "return"),),
                ("test_an_archiver_that_stood_still_takes_nothing_out_of_the_archive",),
            ),
            Mutant(
                "a log of another archiver is overwritten",
                "add_to_logs",
                (("storage.put_if_absent(", "storage.replace("),),
                ("test_an_archiver_that_stood_still_takes_nothing_out_of_the_archive",),
            ),
            Mutant(
                "completed files go before the archive has them",
                "_move",
                (
                    ("    storage.delete(pending)\n", ""),
                    (
                        "    if new and config.layout",
                        "    storage.delete([f.path for i in doomed for _, f in found[instant_key(i)]])\n    if new and config.layout",
                    ),
                ),
                ("test_what_an_archiver_left_the_next_one_finishes",),
            ),
            Mutant(
                "the completed file goes before the others",
                "_move",
                (
                    ("    storage.delete(pending)\n", ""),
                    (
                        "        storage.delete([path])\n",
                        "        storage.delete([path])\n    storage.delete(pending)\n",
                    ),
                ),
                ("test_an_archiver_that_dies_leaves_no_commit_that_looks_pending",),
            ),
            Mutant(
                "the newest instants go first",
                "_move",
                (("for path in done:", "for path in done[::-1]:"),),
                ("test_what_an_archiver_left_the_next_one_finishes",),
            ),
            Mutant(
                "readers take the newest manifest alone",
                "_manifest",
                (("whole_history(", "history_version("),),
                ("test_a_version_file_that_was_set_back_hides_nothing_that_is_archived",),
            ),
        ),
    ),
    Guard(
        "a data file that is taken for an orphan, though a commit, a writer, a savepoint or a query "
        "has it",
        (
            Mutant(
                "files of pending instants go",
                "_origin",
                (
                    ("if any(i.state is not State.COMPLETED for i in there):", "if False:"),
                    ("if there:", "if False:"),
                ),
                ("test_a_file_of_a_pending_instant_stays_also_if_its_writer_is_dead",),
            ),
            Mutant(
                "the archive is not asked about orphans",
                "_is_named",
                (("instant in (facts.archived or ())", "False"),),
                ("test_archived_commits_are_asked_of_the_archive",),
            ),
            Mutant(
                "an unknown instant counts as dead",
                "_origin",
                (
                    (
                        "if facts.archived and facts.archived[0] < instant < facts.archived[-1]:",
                        "if True:",
                    ),
                ),
                ("test_archived_commits_are_asked_of_the_archive",),
            ),
            Mutant(
                "an archive that cannot be read counts as empty",
                "_origin",
                (("if facts.archived is None:", "if False:"),),
                ("test_an_archive_that_cannot_be_read_keeps_every_file_below_the_timeline",),
            ),
            Mutant(
                "nothing spares a file",
                "_spared",
                (("", 'return ""'),),
                (
                    "test_a_young_file_stays",
                    "test_a_file_whose_writer_beats_stays",
                    "test_a_file_that_readers_take_for_data_stays_while_a_query_runs",
                ),
            ),
            Mutant(
                "savepoints keep nothing",
                "_savepointed",
                (("", "return {}"),),
                ("test_a_file_that_a_savepoint_keeps_stays",),
            ),
            Mutant(
                "our own clock tells the age",
                "removed_orphans",
                (
                    (
                        "now_ms = storage_now_ms(table.storage, writer.clock)",
                        "now_ms = writer.clock.now_ms()",
                    ),
                ),
                ("test_the_age_is_by_the_clock_of_the_storage",),
            ),
            Mutant(
                "the timeline is listed before the files",
                "judged_files",
                (
                    (
                        "files = list(StorageListing(table.storage).files())",
                        "timeline = table.timeline(); files = list(StorageListing(table.storage).files())",
                    ),
                    ("    timeline = table.timeline()\n    check", "    check"),
                ),
                ("test_a_writer_that_begins_meanwhile_loses_nothing",),
            ),
        ),
    ),
    Guard(
        "a repair that dies half-way, or that was wrong",
        (
            Mutant(
                "the old bytes are not kept",
                "carried_out",
                (
                    ("storage.put_if_absent(_kept(name, str(number)), old)", "pass"),
                    ("_check_copies(storage, name, moves)", "pass"),
                ),
                ("test_a_crash_at_any_call_loses_no_file",),
            ),
            Mutant(
                "what changed since is overwritten",
                "returned",
                (("if _digest(now) == moved.after else Return.CHANGED", ""),),
                ("test_a_file_that_came_back_in_another_way_is_left_alone",),
            ),
        ),
    ),
    Guard(
        "a repair beside a writer, or of what nothing explains",
        (
            Mutant(
                "pending writes do not stop a repair",
                "_refuse_pending",
                (("", "return"),),
                ("test_nothing_is_repaired_while_a_write_or_a_restore_is_pending",),
            ),
            Mutant(
                "a torn replace commit is made again without what it replaced",
                "_from_files",
                (("if instant.action is not Action.COMMIT:", "if False:"),),
                ("test_what_cannot_be_explained_is_told_and_left_alone",),
            ),
            Mutant(
                "commits forget lost files unasked",
                "_forgotten",
                (("not patient.wishes.forget_lost or metadata is None", "metadata is None"),),
                ("test_what_cannot_be_explained_is_told_and_left_alone",),
            ),
            Mutant(
                "a young plan counts as nobody's",
                "_is_quiet",
                (("", "return True"),),
                ("test_what_cannot_be_explained_is_told_and_left_alone",),
            ),
            Mutant(
                "a plan's path is rewritten wherever it leads",
                "_here",
                (("if not all(ends) or not all(map(parse_data_file_name, names)):", "if False:"),),
                ("test_what_cannot_be_explained_is_told_and_left_alone",),
            ),
            Mutant(
                "either of two files of an instant goes",
                "_doubled",
                (("if len(ours) == 1:", "if True:"),),
                ("test_what_cannot_be_explained_is_told_and_left_alone",),
            ),
            Mutant(
                "a group goes though it has rows that no other has",
                "_is_outdone",
                (("", "return True"),),
                ("test_what_cannot_be_explained_is_told_and_left_alone",),
            ),
            Mutant(
                "an instant in the future goes with its rows",
                "_future",
                (("if empty and not held and", "if"),),
                ("test_what_cannot_be_explained_is_told_and_left_alone",),
            ),
        ),
    ),
    Guard(
        "a service that deletes a log whose rows count, or that a savepoint, a query or a plan needs",
        (
            Mutant(
                "a log of an instant that has not completed is of an old slice",
                "_in_layout_2",
                (("return None", "return EARLIEST"),),
                ("test_logs_of_a_pending_compaction_and_of_writes_that_run_stay",),
            ),
            Mutant(
                "an archived log completed when it began",
                "archived_ends",
                (("", "return {}"),),
                ("test_an_archived_log_is_of_the_slice_before_its_completion",),
            ),
            Mutant(
                "what keeps a log does not keep its slice",
                "_held",
                (("for file in of.files", "for file in of.files[:1]"),),
                ("test_what_a_pending_compaction_is_to_merge_stays",),
            ),
            Mutant(
                "a savepoint holds nothing of commits that end after it",
                "held_files",
                (("if file.instant <= time:", "if False:"),),
                ("test_a_savepoint_keeps_what_commits_that_began_before_it_write_later",),
            ),
            Mutant(
                "a view that moves on knows what savepoints show after a clean",
                "_cleaned",
                (('"" < _instant_of(name) <= saved', "False"),),
                ("test_after_a_clean_of_a_file_that_a_savepoint_shows_its_query_is_refused",),
            ),
            Mutant(
                "a pending compaction holds nothing",
                "held_files",
                (("planned_compactions(table, timeline, COMPACTING)", "()"),),
                ("test_what_a_pending_compaction_is_to_merge_stays",),
            ),
            Mutant(
                "a compaction of logs alone makes no version old",
                "_touched",
                (("compacts or ", ""),),
                ("test_a_compaction_of_logs_alone_has_replaced_them_since_the_last_clean",),
            ),
            Mutant(
                "an archive takes what the next compaction is counted from",
                "_stop",
                (("facts.compacted is not None", "False"),),
                ("test_an_archive_leaves_what_the_next_compaction_is_counted_from",),
            ),
            Mutant(
                "a restore deletes blocks of commits that stay",
                "shared_logs",
                (("", "return set()"),),
                ("test_blocks_of_commits_that_stay_are_left_and_undone_ones_taken_back",),
            ),
            Mutant(
                "a slice with rows of an older write is undone",
                "check_shared",
                (("", "return"),),
                ("test_a_slice_with_rows_of_an_older_write_is_not_undone",),
            ),
            Mutant(
                "a compaction that runs does not stop a restore",
                "_refuse_living",
                (("if begun and beat is None and not fence:", "if False:"),),
                ("test_a_compaction_that_runs_is_told_and_fenced_on_request",),
            ),
        ),
    ),
)
