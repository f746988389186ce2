from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pyhudi.application import application_markers
from pyhudi.application.application_markers import Addresses, ApplicationMarkers
from pyhudi.clock import SystemClock
from pyhudi.rows.announce import reaches

Asked = list[tuple[str, int, str]]


class Probe:
    """Asks the real server, or says what it is told to."""

    def __init__(self, answer: bool | None = None) -> None:
        self.answer = answer
        self.asked: Asked = []

    def __call__(self, host: str, port: int, token: str) -> bool:
        self.asked.append((host, port, token))
        return reaches(host, port, token, 30) if self.answer is None else self.answer


@pytest.fixture
def made() -> Iterator[list[ApplicationMarkers]]:
    """Services that end with the test."""
    found: list[ApplicationMarkers] = []
    yield found
    for markers in found:
        markers.stop()


def test_the_server_starts_when_it_is_needed_and_is_probed_once(
    made: list[ApplicationMarkers],
) -> None:
    probe = Probe()
    markers = ApplicationMarkers(SystemClock(), Addresses(), probe)
    made.append(markers)
    assert probe.asked == []
    assert markers.server_runs(0)
    assert markers.server_runs(0)
    ((host, port, token),) = probe.asked
    address = markers.address("k")
    assert (address.host, address.port, address.key, address.token) == (host, port, "k", token)
    assert reaches(address.host, address.port, address.token, 30)


def test_executors_that_do_not_reach_it_get_direct_markers_and_one_warning(
    made: list[ApplicationMarkers], caplog: pytest.LogCaptureFixture
) -> None:
    probe = Probe(False)
    markers = ApplicationMarkers(SystemClock(), Addresses(host="driver.example"), probe)
    made.append(markers)
    with caplog.at_level(logging.WARNING):
        assert not markers.server_runs(0)
        assert not markers.server_runs(0)
    assert len(probe.asked) == 1
    (record,) = (one for one in caplog.records if one.name == application_markers.__name__)
    assert "driver.example" in record.getMessage()
    _, port, token = probe.asked[0]
    assert not reaches("127.0.0.1", port, token, 1), "the server is gone again"
    assert token not in caplog.text


def test_an_address_that_cannot_be_listened_at_means_direct_markers(
    made: list[ApplicationMarkers], caplog: pytest.LogCaptureFixture
) -> None:
    markers = ApplicationMarkers(SystemClock(), Addresses(bind="203.0.113.1"), Probe())
    made.append(markers)
    with caplog.at_level(logging.WARNING):
        assert not markers.server_runs(0)
    assert "cannot listen at 203.0.113.1" in caplog.text


def test_after_the_end_nothing_listens_and_nothing_starts_again(
    made: list[ApplicationMarkers],
) -> None:
    markers = ApplicationMarkers(SystemClock(), Addresses(), Probe())
    assert markers.server_runs(0)
    address = markers.address("k")
    markers.stop()
    markers.stop()
    assert not reaches(address.host, address.port, address.token, 1)
    assert not markers.server_runs(0)


def test_a_chosen_port_is_the_port(made: list[ApplicationMarkers]) -> None:
    first = ApplicationMarkers(SystemClock(), Addresses(), Probe())
    made.append(first)
    assert first.server_runs(0)
    port = first.address("k").port
    first.stop()
    second = ApplicationMarkers(SystemClock(), Addresses(), Probe())
    made.append(second)
    assert second.server_runs(port)
    assert second.address("k").port == port
