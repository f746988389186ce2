"""Faults inside log files: blocks that are damaged, so that readers pass over them."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import TableCorrupt
from pyhudi.format.log_blocks import InMemory, find_blocks
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import Patient
from pyhudi.services.slice_merging import completed_slices


def _damaged(patient: Patient) -> Iterator[TableFault]:
    if not patient.wishes.read_files or not patient.is_merge_on_read or not patient.log_files:
        return
    if not patient.config.logs_name_their_write:
        yield TableFault(
            patient.storage.root,
            "A log has blocks of several writes here, and one that has failed may leave half of a "
            "block, so a damaged block looks like one of these.",
            "Compare the rows with their source, or compact the table as long as they are right.",
            judged=False,
        )
        return
    logs = (log for each in completed_slices(patient.view) for log in each.logs)
    for log in logs:
        data = patient.storage.read(log.path)
        try:
            for _ in find_blocks(InMemory(data), log.path):
                pass
        except TableCorrupt as e:
            yield TableFault(
                log.path,
                str(e),
                "Bring the file back from a backup, or restore to a commit before it.",
            )


LOG_KINDS = (
    Kind(
        "damaged log",
        "spec/log_files.md L1",
        "pyhudi fails; Apache Hudi and hudi-rs may pass over the block, and give older rows",
        _damaged,
    ),
)
