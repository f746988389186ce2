"""A merge-on-read table in memory whose base files, logs and instants are put there by hand."""

from __future__ import annotations

from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId, LogFileName
from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.format.log_blocks import BlockType, HeaderKey, render_block
from tests.timeline.bare import Bare, t
from tests.transactions.world import World

GROUP = "g"


class Logged(Bare):
    """The table of a world; the files of ``GROUP`` in the partition ``p`` unless said."""

    def __init__(self, world: World) -> None:
        super().__init__(1 if world.version == 6 else 2)
        self.world, self.storage = world, world.memory

    def base(self, time: int, action: Action = Action.DELTACOMMIT, group: str = GROUP) -> str:
        """A commit that writes a base file; its path."""
        stat = self.file(group, time)
        self.committed(time, action, None, (stat,))
        return stat.path

    def compaction(self, time: int) -> str:
        """A compaction; the path of its base file."""
        return self.base(time, Action.COMMIT)

    def delta(
        self,
        time: int,
        begin: int,
        done: int | None = None,
        writers: tuple[int, ...] = (),
        version: int = 1,
        cdc: bool = False,
    ) -> str:
        """A delta commit with a log of the slice that begins at ``begin``; the path of the log.

        The log has a block of ``time``, or of each of the ``writers``.
        """
        path = self.log_of(time, begin, writers or (time,), version, cdc)
        stat = WriteStat(
            FileId(GROUP), path, "p", t(begin) if begin < time else None, num_writes=1,
            file_size_bytes=len(self.storage.read(path)),
        )  # fmt: skip
        self.committed(time, Action.DELTACOMMIT, done, (stat,))
        return path

    def committed(
        self,
        time: int,
        action: Action = Action.DELTACOMMIT,
        done: int | None = None,
        stats: tuple[WriteStat, ...] = (),
    ) -> None:
        """A commit with its earlier files; that of a compaction has a name of its own in these."""
        begun = Action.COMPACTION if action is Action.COMMIT else action
        self.put(begun, State.REQUESTED, time)
        self.put(begun, State.INFLIGHT, time)
        self.put(action, State.COMPLETED, time, done, stats)

    def log_of(
        self, time: int, begin: int, writers: tuple[int, ...], version: int = 1, cdc: bool = False
    ) -> str:
        """A log without its commit; its path."""
        named = t(begin if self.layout == 1 else time)
        name = LogFileName(FileId(GROUP), named, version, "0-1-0", cdc).render()
        blocks = [
            render_block(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: t(each)}, b"\0" * 8)
            for each in writers
        ]
        self.storage.put_if_absent(f"p/{name}", b"".join(blocks))
        return f"p/{name}"

    def on_disk(self) -> set[str]:
        return {file.path for file in self.storage.walk("p")}

    def commits(self) -> list[InstantTime]:
        return [commit.time for commit in self.world.table().timeline().commits]
