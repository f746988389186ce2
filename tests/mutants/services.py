"""Mutants of the guards around table services: what a clean must not delete, and when."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Guard, Mutant

SERVICES: Final = (
    Guard(
        "a clean that deletes what a query, a savepoint, a write or a plan reads",
        (
            Mutant(
                "leases hold nothing",
                "_leased",
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
                "finish_clean",
                (("if _path(partition, name) in counts:", "if False:"),),
                ("test_a_plan_that_was_found_never_deletes_what_counts_now",),
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
                ((" if i.time not in known]", "]"),),
                ("test_what_an_archiver_left_the_next_one_finishes",),
            ),
            Mutant(
                "completed files go before the archive has them",
                "_move",
                (
                    ("    if rows:\n        add_to_history(writer, rows)\n", ""),
                    (
                        "        storage.delete([path])",
                        "        storage.delete([path])\n    if rows:\n        add_to_history(writer, rows)",
                    ),
                ),
                ("test_what_an_archiver_left_the_next_one_finishes",),
            ),
        ),
    ),
)
