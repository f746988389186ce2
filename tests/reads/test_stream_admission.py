from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from pyhudi.format.instants import InstantTime
from pyhudi.reads.stream_admission import Ahead, BatchLimits, Load, admitted, cut

LOADS = st.builds(Load, st.just(1), st.integers(0, 50), st.integers(0, 20))
LIMITS = st.builds(
    BatchLimits,
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 100),
    st.none() | st.integers(1, 40),
)
COMMITS = st.lists(st.tuples(st.lists(LOADS, max_size=5), st.booleans()), max_size=8)


@given(COMMITS, LIMITS)
def test_batches_take_everything_in_order_and_keep_the_limits(
    drawn: list[tuple[list[Load], bool]], limits: BatchLimits
) -> None:
    commits = [Ahead(InstantTime(f"{n:03}"), files, cuts) for n, (files, cuts) in enumerate(drawn)]
    read: list[tuple[str, int]] = []
    at, done = "", None
    for _ in range(100):
        if done is None:
            end = admitted((c for c in commits if c.at > at), limits)
            if end is None:
                break
            taken = [c for c in commits if at < c.at <= end[0]]
        else:
            here = next(c for c in commits if c.at == at)
            end, taken = (here.at, cut(here.files, done, limits)), [here]
        first = done or 0
        parts = [(c.at, n) for c in taken for n in range(len(c.files))]
        parts = parts[first : end[1] if len(taken) == 1 else None]
        load = sum((c.files[n] for c in taken for a, n in parts if a == c.at), Load())
        single = len(parts) <= 1 or (len(taken) == 1 and not taken[0].cuttable)
        assert limits.allow(load) or single
        read += parts
        at, done = end
    assert read == [(c.at, n) for c in commits for n in range(len(c.files))]


@given(st.lists(LOADS, min_size=1, max_size=9), LIMITS)
def test_a_part_takes_as_many_files_as_the_limits_allow(
    files: list[Load], limits: BatchLimits
) -> None:
    most = cut(files, 0, limits)
    sums = list(accumulate(files))
    taken = len(files) if most is None else most
    assert taken >= 1
    assert taken == 1 or limits.allow(sums[taken - 1])
    assert most is None or not limits.allow(sums[taken])


def test_without_limits_one_batch_takes_all() -> None:
    ahead = [Ahead(InstantTime(str(n)), [Load(1, 10**12, 10**9)] * 3) for n in range(9)]
    assert admitted(ahead, BatchLimits()) == ("8", None)
    assert admitted([], BatchLimits()) is None
