"""Mutants of the guards around streams: a micro-batch is in the table once."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Guard, Mutant

HIDES_AN_EPOCH: Final = (
    "test_apache_hudis_key_has_no_number_that_would_hide_an_epoch_with_a_smaller_instant"
)

STREAMS: Final = (
    Guard(
        "a micro-batch that comes twice: it is repeated, or a stale driver writes it too",
        (
            Mutant(
                "an epoch is not judged under the lock",
                "fence_epoch",
                (("", "return"),),
                (
                    "test_a_driver_whose_epoch_another_has_committed_skips_it_under_the_lock",
                    "test_a_driver_that_another_has_overtaken_ends_under_the_lock",
                    "test_every_schedule_of_a_driver_that_is_started_again_is_right[one preemption]",
                ),
            ),
            Mutant(
                "an epoch that the table has is written again",
                "judge_epoch",
                (("and mark.writes > epoch.ordinal:", "and False:"),),
                (
                    "test_an_epoch_that_the_table_has_is_found_by_a_new_driver",
                    "test_a_batch_whose_end_was_not_logged_is_repeated_without_an_instant",
                ),
            ),
            Mutant(
                "a batch that is in under another name is written again",
                "judge_epoch",
                (("raise renamed(epoch, name, other)", "continue"),),
                ("test_a_batch_that_is_in_under_another_name_does_not_come_twice",),
            ),
            Mutant(
                "where Apache Hudi's sink went on does not count",
                "_take",
                (("since.setdefault(name, Mark(None, batch, 1, time))", "pass"),),
                ("test_where_apache_hudis_sink_went_on_its_number_counts",),
            ),
        ),
        unproven="The judgements before the write and after the begin only save work: without them "
        "the explorer finds nothing wrong, since the one under the lock has the last word "
        "(`test_a_batch_whose_end_was_not_logged_is_repeated_without_an_instant`).",
    ),
    Guard(
        "a stream whose last batch is hidden by another's commit, or archived",
        (
            Mutant(
                "a commit forgets the marks before it",
                "with_marks",
                (
                    (
                        "marks, whole = _look(table, now, archived=epoch is not None)",
                        "marks: Marks = {}; whole = True",
                    ),
                ),
                ("test_every_commit_carries_the_marks_of_all_streams",),
            ),
            Mutant(
                "the archive is not asked for marks",
                "_look",
                (("if archived and not whole:", "if False:"),),
                ("test_marks_are_found_in_the_archive_if_no_active_commit_has_any",),
            ),
            Mutant(
                "a batch writer's marks hide those in the archive",
                "with_marks",
                (("if not (marks and whole):", "if not marks:"),),
                ("test_a_batch_writer_does_not_hide_marks_in_the_archive",),
            ),
            Mutant(
                "in version 6 the times of files say which marks are the newest",
                "_look",
                (
                    (
                        "sorted(timeline.commits, key=_reached)",
                        "sorted(timeline.commits, key=lambda i: timeline.modified_ms[instant_key(i)])",
                    ),
                ),
                ("test_marks_stay_those_of_the_newest_commit_when_a_table_is_copied",),
            ),
            Mutant(
                "an older instant of Apache Hudi's sink that ended late is passed over",
                "_take_late",
                (("", "return"),),
                ("test_a_batch_of_apache_hudi_that_ended_after_a_newer_instant_counts",),
            ),
            Mutant(
                "marks are put again over those of a stream that moved",
                "check_marks",
                (("", "return"),),
                ("test_a_stream_that_moved_since_the_judgement_is_a_conflict",),
            ),
            Mutant(
                "Apache Hudi's sink is not told how far a stream is",
                "render_marks",
                (('extra[HUDI_KEY] = json.dumps(hudis, separators=(",", ":"))', "pass"),),
                (HIDES_AN_EPOCH,),
            ),
            Mutant(
                "a number that hides a pending epoch from Apache Hudi's sink is told",
                "with_marks",
                (
                    (
                        "if any(i.action in _OF_EPOCHS and i.time < instant for i in now.pending):",
                        "if False:",
                    ),
                ),
                (HIDES_AN_EPOCH,),
            ),
        ),
    ),
    Guard(
        "rows that are skipped: of a second query, a fresh checkpoint, or a batch's second write",
        (
            Mutant(
                "a batch's number says all, whichever query has it",
                "judge_epoch",
                (("if mark is not None and mark.query == epoch.query:", "if mark is not None:"),),
                ("test_an_epoch_is_written_skipped_or_refused",),
            ),
            Mutant(
                "a restore that undid batches is passed over",
                "_refuse_gap",
                (("if not undone:", "if True:"),),
                ("test_a_stream_whose_batches_a_restore_has_undone_is_told",),
            ),
            Mutant(
                "a restore that undid all batches of a query is passed over",
                "_doubtful_since",
                (
                    (
                        "return judged if (epoch.batch, epoch.ordinal) > (0, 0) else None",
                        "return None",
                    ),
                ),
                ("test_a_stream_of_which_a_restore_left_no_batch_is_told",),
            ),
            Mutant(
                "a restore that undid a write of the batch is passed over",
                "_doubtful_since",
                (("return max(own.instant, judged)", "return None"),),
                ("test_a_write_whose_batch_lost_its_first_one_by_a_restore_meanwhile_is_told",),
            ),
            Mutant(
                "a restore that undid the last write of a batch is passed over",
                "_doubtful_since",
                (("whole = not own.made or", "whole = True or"),),
                ("test_a_function_of_whose_batch_a_restore_has_undone_the_last_write_is_told",),
            ),
            Mutant(
                "a table that was made again is taken for the old one",
                "_refuse_gap",
                (("newer = seen is not None and", "newer = False and seen is not None and"),),
                ("test_a_stream_whose_table_was_made_again_is_told",),
            ),
            Mutant(
                "each write of a batch is its first",
                "Ordinals.turn",
                (("yield Turn(batch, ordinal, told)", "yield Turn(batch, 0, told)"),),
                ("test_the_writes_of_a_batch_to_one_table_are_numbered_in_their_order",),
            ),
            Mutant(
                "a write that fails keeps its number",
                "Ordinals.turn",
                (("del writes[ordinal]", "pass"),),
                ("test_a_write_that_fails_gives_its_number_back",),
            ),
            Mutant(
                "a batch that makes other writes than before is not noticed",
                "_check_writes",
                (("", "return"),),
                ("test_the_writes_of_a_repeated_batch_are_those_of_its_mark",),
            ),
            Mutant(
                "a table has a count for each of its paths",
                "turn_of",
                (("place_of(runtime.storage(at.root))", "at.root"),),
                ("test_a_table_has_one_count_by_whatever_path_it_is_written",),
            ),
            Mutant(
                "tables of a running batch are forgotten",
                "Ordinals._writes",
                (("found.batch != batch:", "place not in found.made:"),),
                ("test_no_table_of_a_running_batch_is_forgotten",),
            ),
        ),
    ),
    Guard(
        "an epoch that is tried again while the outcome of its last try is unknown",
        (
            Mutant(
                "an epoch is tried again before its last try is settled",
                "Retries._looked_again",
                (
                    (
                        "settle_failed_writes(self.writer(table), forced=(InstantTime(late.instant),))",
                        "pass",
                    ),
                ),
                ("test_an_unknown_outcome_is_settled_before_its_epoch_is_tried_again",),
            ),
        ),
    ),
)
