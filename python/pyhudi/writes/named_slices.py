"""The slices that logs were added to, named by the commit for readers of changes."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.format.commit_metadata import WriteStat
from pyhudi.writes.write_context import Write


def naming_slices(write: Write, stats: tuple[WriteStat, ...]) -> tuple[WriteStat, ...]:
    """``stats`` of a write, of which those of logs name the slice that they were added to.

    Apache Hudi finds the row before a change of such a log in these files alone
    (spec/log_files.md L7), so it matters in tables with change logs of layout 2. Workers name the
    base file in layout 1.
    """
    config = write.config
    logs = {(s.partition_path, s.file_id) for s in stats if s.log_version is not None}
    if not logs or not config.cdc_enabled or config.layout == 1:
        return stats
    committed, named = write.view.committed(), {}
    for each in write.view.slices(partitions={partition for partition, _ in logs}):
        group = each.partition_path, each.file_id
        if group in logs:
            rows = (log for log in each.logs if not log.named.cdc and committed(log.instant))
            base = "" if each.base is None else each.base.path.rpartition("/")[2]
            named[group] = base, tuple(log.named.render() for log in rows), each.instant
    found = []
    for stat in stats:
        slice_of = named.get((stat.partition_path, stat.file_id))
        if stat.log_version is not None and slice_of is not None:
            base, older, begins = slice_of
            files = (*older, *(stat.log_files or ()))
            stat = replace(stat, base_file=base, log_files=files, prev_commit=begins)
        found.append(stat)
    return tuple(found)
