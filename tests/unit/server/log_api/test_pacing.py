"""Readers of the log wait between pages while writers are busy, and only then."""

import pytest

from mainstem import limits
from mainstem.server.log_api.pacing import Pacing

FEW, MANY = limits.LOG_PACING_RECORDS_S // 2, limits.LOG_PACING_RECORDS_S * 2


class Server:
    """Reads pages of 20 ms, with a pause after each, while its log grows."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.head = 0
        self.pacing = Pacing(0, lambda: self.now_s)

    def read_page(self, records_per_s: int, took_s: float = 0.02) -> float:
        passed_s = max(took_s, 2 * limits.LOG_PACING_WINDOW_S)
        self.now_s += passed_s
        self.head += int(passed_s * records_per_s)
        self.pacing.note_page(took_s, self.head)
        return self.pacing.measure_wait()


@pytest.fixture
def server():
    return Server()


def test_readers_never_wait_if_little_is_written(server):
    assert [server.read_page(FEW) for _ in range(5)] == [0] * 5


def test_a_page_beside_busy_writers_is_followed_by_a_pause_in_proportion(server):
    assert server.read_page(MANY) == pytest.approx(limits.LOG_PACING_PAUSES * 0.02)
    server.now_s += 0.1
    assert server.pacing.measure_wait() == pytest.approx(limits.LOG_PACING_PAUSES * 0.02 - 0.1)
    server.now_s += 10
    assert server.pacing.measure_wait() == 0


def test_a_pause_is_bounded(server):
    assert server.read_page(MANY, took_s=30) == pytest.approx(limits.LOG_PACING_S_MAX)


def test_pauses_end_when_the_writers_do(server):
    assert server.read_page(MANY) > 0
    server.now_s += 1
    assert server.read_page(FEW) == 0


def test_a_single_large_commit_is_not_taken_for_busy_writers(server):
    server.read_page(FEW)
    server.now_s += 0.001
    server.head += 500  # as if 500 000 were committed per second
    server.pacing.note_page(0.02, server.head)
    assert server.pacing.measure_wait() == 0
