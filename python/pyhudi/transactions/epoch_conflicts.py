"""What a batch of a stream is told that does not follow the last one which its table has."""

from __future__ import annotations

from pyhudi.errors import StreamConflict
from pyhudi.format.instants import InstantTime
from pyhudi.format.stream_marks import Epoch, Mark

NAME = "hoodie.datasource.write.streaming.checkpoint.identifier"
REPLACES = "hoodie.datasource.write.streaming.checkpoint.replaces"


def behind(epoch: Epoch, mark: Mark) -> StreamConflict:
    """A batch that is older than the table's last one of its query."""
    return _conflict(
        epoch,
        mark,
        f"its checkpoint asks for batch {epoch.batch}: the checkpoint is older than the table, as "
        "after it was put back from a copy, and a batch that is evaluated again may have other "
        "rows.",
        "Set the table back to the same time (pyhudi.restore), or start with a new checkpoint from "
        f"the right offsets and set {REPLACES} to {mark.query}.",
    )


def after_hudi(epoch: Epoch, mark: Mark) -> StreamConflict:
    """A batch that may be another than the one which Apache Hudi's sink has written."""
    go_on = "use its checkpoint"
    if epoch.batch == mark.batch:  # number 0, which may be a repetition
        go_on += "; if this is it, and Spark had not noted batch 0 there, run Hudi's sink once more"
    return _conflict(
        epoch,
        mark,
        f"{epoch.who} comes now: a fresh checkpoint, or one from before.",
        f"To go on where Hudi's sink ended, {go_on}. For another stream beside it, give "
        f"this one a name by {NAME}. To write the batches of a fresh checkpoint under the same "
        f"name, set {REPLACES} to *.",
    )


def another(epoch: Epoch, mark: Mark) -> StreamConflict:
    """A batch of another query under the same name."""
    return _conflict(
        epoch,
        mark,
        f"now query {epoch.query} writes its batch {epoch.batch}: a second stream, or the same one "
        "with a fresh checkpoint, whose batches may come twice.",
        f"For a second stream, give it a name by {NAME}. If it replaces the other query, set "
        f"{REPLACES} to {mark.query}.",
    )


def renamed(epoch: Epoch, name: str, mark: Mark) -> StreamConflict:
    """A batch of a query that the table knows under another ``name``."""
    comes = (
        f"now its batch {epoch.batch} comes under the name '{epoch.stream}': the stream was given "
        "another name, or its checkpoint was copied."
    )
    remedy = "For a stream of its own, start it with a checkpoint of its own."
    if mark.batch == epoch.batch:
        remedy = (
            f"If it has another name now, set {REPLACES} to {mark.query}: what the table has is "
            f"then skipped. {remedy}"
        )
    return _conflict(epoch, mark, comes, remedy, name)


def other_write(epoch: Epoch, mark: Mark, number: int) -> StreamConflict:
    """A repeated batch whose write ``number`` is not what the ``mark`` says."""
    before, now = mark.made[number], epoch.made[number]
    found = _conflict(
        epoch,
        mark,
        f"the function that repeats batch {epoch.batch} made other writes than before: write "
        f"{number + 1} of the batch to this table was '{before}', and is '{now}' now. So its "
        "writes cannot be told from those that the table has.",
        "Make the function write the same for this batch as before, whatever the table holds by "
        "now. If all that it writes from here on may be written on top of what the table has of "
        f"the batch, set {REPLACES} to {epoch.query} for one run.",
    )
    found.ours, found.theirs = f"{epoch.who}: {now}", f"{mark.who}: {before}"
    return found


def set_back(epoch: Epoch, mark: Mark | None, restore: InstantTime | None) -> StreamConflict:
    """A batch before which others were undone, by a ``restore`` or since this driver saw them."""
    why = "this driver has seen more in it"
    if restore:
        why = f"restore {restore} " + ("came after it" if mark is not None else "undid commits")
    where = "between" if mark is not None else "before it"
    told = f"{mark.who} (commit {mark.instant})" if mark is not None else "no batch"
    return StreamConflict(
        f"The last that the table has of query {epoch.query} is {told}, {why}, and now the query "
        f"writes its batch {epoch.batch}: what it wrote {where} had no rows, or it was undone, by "
        "a restore or since the table was dropped and made again. Nothing was written, and nothing "
        "was skipped. To write the undone batches again, put the checkpoint back to the same time, "
        f"or start with a new one. If no batch is missing, or to go on without them, set {REPLACES}"
        f" to {epoch.query} for one run.",
        ours=epoch.who,
        theirs=f"restore {restore}" if restore else "a table that was set back",
        stream=epoch.stream,
    )


def perhaps_cut(epoch: Epoch, mark: Mark, restore: InstantTime) -> StreamConflict:
    """The batch after that of the ``mark``, whose last writes a ``restore`` may have undone."""
    return StreamConflict(
        f"The last that the table has of query {epoch.query} is {mark.who} (commit "
        f"{mark.instant}), restore {restore} came after it, and now the query writes its batch "
        f"{epoch.batch}. Of batch {mark.batch} the table has these writes: {', '.join(mark.made)}. "
        "A driver that has not made them cannot know whether there were more, which the restore "
        "undid. Nothing was written, and nothing was skipped. If the function makes no more writes "
        f"to this table for a batch, set {REPLACES} to {epoch.query} for one run. If it does, put "
        f"the checkpoint back to before the end of batch {mark.batch}: what the table has of it is "
        "skipped, and the rest is written.",
        ours=epoch.who,
        theirs=f"restore {restore}",
        stream=epoch.stream,
    )


def _conflict(
    epoch: Epoch, mark: Mark, comes: str, remedy: str, name: str | None = None
) -> StreamConflict:
    """The error that says who has written, and what ``comes`` now in its place."""
    who = "Apache Hudi's sink" if mark.query is None else f"Query {mark.query}"
    return StreamConflict(
        f"{who} has written this table up to batch {mark.batch} (commit {mark.instant}) under the "
        f"name '{name or epoch.stream}', and {comes} Nothing was written, and nothing was skipped. "
        f"{remedy}",
        ours=epoch.who,
        theirs=mark.who,
        stream=epoch.stream,
    )
