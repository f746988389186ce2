"""Mutants of the guards around locks, leases and signs of life."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Guard, Mutant

LOCKING: Final = (
    Guard(
        "a comparison or a listing under the lock that takes longer than a lease",
        (
            Mutant(
                "the lease is not renewed",
                "_renew",
                (("while not stopped.wait(interval_s):", "while False:"),),
                ("test_a_lease_outlasts_what_is_done_under_it_and_is_left_alone_after",),
            ),
            Mutant(
                "the timeline is not looked at again",
                "Transaction._judged",
                (("judged = now\n            if not news:", "judged = now\n            if True:"),),
                (
                    "test_a_writer_that_was_lost_while_it_compared_publishes_nothing",
                    "test_a_restore_that_comes_while_commits_are_compared_is_a_conflict",
                ),
            ),
        ),
    ),
    Guard(
        "a lock that outlives its holder, or the reverse",
        (
            Mutant(
                "what is sent may outlast the lease of a service",
                "LeasedLock.check",
                (("if remaining <= needed_s:", "if False:"),),
                ("test_a_holder_that_needs_longer_than_its_lease_is_fenced[storage in memory]",),
            ),
            Mutant(
                "what is sent may outlast the lease of a lock file",
                "FilesystemLock.check",
                (("if remaining <= needed_s:", "if False:"),),
                ("test_a_holder_that_needs_longer_than_its_lease_is_fenced[lock file in memory]",),
            ),
            Mutant(
                "the lock of a dead holder stays",
                "FilesystemLock._is_expired",
                (("return unchanged_s > found.lease_s", "return False"),),
                (
                    "test_the_lock_of_a_dead_holder_is_taken_over_after_its_lease[lock file in memory]",
                ),
            ),
            Mutant(
                "a living holder's lock is taken over",
                "FilesystemLock._is_expired",
                (("return unchanged_s > found.lease_s", "return True"),),
                (
                    "test_a_taken_lock_times_out_and_names_owner_host_since_and_remedy[lock file in memory]",
                ),
            ),
            Mutant(
                "a lease counts from when the answer came",
                "FilesystemLock.renew",
                (("started + self._lease_s", "self._clock.monotonic() + self._lease_s"),),
                ("test_a_lease_begins_before_the_request_that_took_or_renewed_it",),
            ),
            Mutant(
                "a take-over that was too slow counts",
                "FilesystemLock._take_over",
                (("self._clock.monotonic() - started >= self._margin_s", "False"),),
                ("test_a_takeover_that_was_too_slow_does_not_count_but_blocks_others_for_a_lease",),
            ),
        ),
    ),
    Guard(
        "a late request of a dead holder",
        (
            Mutant(
                "a register is written whatever it holds",
                "StorageRegister._put",
                (
                    (
                        "self._storage.swap(PATH, data, after.version)",
                        "self._storage.replace(PATH, data)",
                    ),
                ),
                (
                    "test_of_two_heirs_one_has_the_lock",
                    "test_what_was_read_before_somebody_wrote_is_good_for_no_write",
                ),
            ),
            Mutant(
                "S3 replaces whatever version is there",
                "S3Storage.swap",
                (('{"IfMatch": tag}', "{}"),),
                ("test_a_version_that_was_replaced_meanwhile_is_not_swapped",),
            ),
            Mutant(
                "a node counts whoever's session made it",
                "ZookeeperLock.is_ours",
                (("stat.ephemeralOwner == session[0]", "True"),),
                ("test_a_node_of_our_name_that_another_session_made_is_not_ours",),
            ),
            Mutant(
                "a number that was tidied away is taken again",
                "NumberedFiles.ask",
                (("if self._files().top != number:", "if False:"),),
                ("test_a_number_that_was_tidied_away_is_not_taken_again",),
            ),
            Mutant(
                "a released number is still ours",
                "NumberedFiles.is_ours",
                ((' or files.has(self._number, "released")', ""),),
                ("test_a_released_file_that_another_put_fences_the_holder",),
            ),
        ),
    ),
    Guard(
        "a lost reply",
        (
            Mutant(
                "an answer that did not come is a refusal",
                "FinalPut._lands",
                (
                    (
                        "isinstance(error, StorageError) and error.had_no_effect and not doubted",
                        "True",
                    ),
                ),
                (
                    "test_a_commit_whose_put_is_never_answered_is_unknown_and_nothing_is_deleted",
                    "test_a_lost_reply_at_the_final_put_is_settled_by_a_look",
                ),
            ),
            Mutant(
                "an error that says nothing of its put is a refusal",
                "HudiError.__post_init__",
                (("", "self.had_no_effect = True"),),
                ("test_an_unforeseen_error_of_a_put_that_landed_leaves_the_outcome_unknown",),
            ),
            Mutant(
                "a disk that does not answer has refused",
                "_unnamed",
                (("if error.errno in _REFUSED:", "if True:"),),
                ("test_a_link_without_an_answer_has_an_unknown_outcome",),
            ),
            Mutant(
                "a connection to S3 that breaks has refused",
                "_had_no_effect",
                (("", "return True"),),
                ("test_a_put_that_never_got_an_answer_has_an_unknown_outcome",),
            ),
        ),
    ),
    Guard(
        "a write without locks on a table of pessimistic writers",
        (
            Mutant(
                "a write without locks commits",
                "refuse_without_locks",
                (("", "return"),),
                (
                    "test_a_write_without_locks_cannot_commit_to_a_table_that_has_become_pessimistic",
                ),
            ),
            Mutant(
                "commits without the mark are not compared",
                "check_unlocked",
                (("", "return"),),
                ("test_what_was_written_without_locks_on_our_groups_is_named_and_refused",),
            ),
        ),
    ),
    Guard(
        "a service of Apache Hudi that finds a request without a heartbeat, and undoes the write even after its commit",
        (
            Mutant(
                "no heartbeat before the request",
                "RunningInstant.begin",
                (("            self._heartbeat.beat()\n", ""),),
                ("test_no_write_is_on_the_timeline_before_its_heartbeat",),
            ),
            Mutant(
                "who stood still before the request goes on",
                "RunningInstant.begin",
                (("self._heartbeat.check(self.who)", "pass"),),
                ("test_a_begin_that_stood_still_behind_its_first_heartbeat_gives_up",),
            ),
        ),
    ),
    Guard(
        "a writer that died",
        (
            Mutant(
                "a failed write is given up while its tasks may still write",
                "RunningInstant.abort",
                (
                    (
                        "functools.partial(self._heartbeat.stop, settled=False)",
                        "self._heartbeat.give_up",
                    ),
                ),
                ("test_an_abort_that_nobody_tells_of_the_attempts_leaves_its_last_heartbeat",),
            ),
            Mutant(
                "nobody counts as dead",
                "_is_dead",
                (("", "return False"),),
                (
                    "test_eager_rolls_a_stale_writer_back_at_once",
                    "test_lazy_rolls_back_only_what_is_stale",
                ),
            ),
            Mutant(
                "everybody counts as dead",
                "_is_dead",
                (("", "return True"),),
                (
                    "test_eager_leaves_a_writer_alone_that_beats_again",
                    "test_lazy_rolls_back_only_what_is_stale",
                ),
            ),
            Mutant(
                "a process elsewhere is known by its number",
                "LinuxProcesses.has_ended",
                (("or _place(ours) != _place(process)", ""),),
                ("test_of_a_process_elsewhere_nothing_is_known[boot]",),
            ),
            Mutant(
                "a process with the same number is the same one",
                "LinuxProcesses.has_ended",
                (("int(stat[_STARTED]) != process.started", "False"),),
                ("test_a_number_that_another_process_has_now_is_not_taken_for_the_first",),
            ),
            Mutant(
                "a rollback that is half done stays so",
                "finish_rollback",
                (("", "return"),),
                ("test_a_rollback_that_loses_its_lock_does_not_complete",),
            ),
            Mutant(
                "a rollback is finished though its writer lives",
                "_is_at_work",
                (("", "return False"),),
                ("test_a_rollback_whose_writer_lives_is_left_to_it",),
            ),
        ),
    ),
    Guard(
        "spooled rows of a statement that was killed",
        (
            Mutant(
                "spools stay",
                "sweep_spools",
                (("", "return"),),
                ("test_the_spool_of_a_dead_statement_is_deleted_after_a_lapse_of_silence",),
            ),
            Mutant(
                "spools go whoever uses them",
                "sweep_spools",
                (("has_passed(storage, clock, newest, policy.lapse_ms)", "True"),),
                ("test_a_spool_in_use_stays_however_old_it_is",),
            ),
        ),
    ),
)
