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
)
