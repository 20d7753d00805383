"""The notice of a command that retries."""

import time

from mainstem.cli import clients
from mainstem.cli.addresses import Address

NOTICE = "mainstem: waiting for http://h; retrying (Ctrl-C stops)\n"


def test_the_notice_is_given_once_per_wait_and_only_after_a_second(monkeypatch, capsys):
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    retries = clients.make_retries(Address("http://h"))
    for failures in (1, 2):
        retries.delay(failures, lambda: 0.0)
    assert capsys.readouterr().err == ""  # half a second is a restart that nobody notices
    now_s += 1.1
    for failures in (3, 4, 5):
        retries.delay(failures, lambda: 0.0)
    assert capsys.readouterr().err == NOTICE
    retries.delay(1, lambda: 0.0)  # it was back, and is away again
    now_s += 1.1
    retries.delay(2, lambda: 0.0)
    assert capsys.readouterr().err == NOTICE


def test_a_first_request_gives_up_before_a_notice_is_due(capsys):
    retries = clients.make_retries(Address("http://h"), attempts=3)
    waits_s = [retries.delay(failures, lambda: 1.0) for failures in (1, 2)]
    assert not retries.allow(3)
    assert sum(waits_s) < 0.5
    assert capsys.readouterr().err == ""
