"""Failed exports are one line per interval; the SDK's own lines and tracebacks stay out of the log."""

import logging
import threading

import pytest

from mainstem import limits
from mainstem.server.telemetry.export_failures import ExportFailures, SdkLogs


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def test_a_line_counts_what_was_lost_since_the_last(caplog, clock):
    failures = ExportFailures("http://collector:4318", "spans", clock)
    for number in (1, 20, 300):
        failures.report(number)
    assert [record.getMessage().partition("take ")[2].partition(",")[0] for record in caplog.records] == ["1 spans"]
    clock.now_s += limits.EXPORT_FAILURES_LOGGED_S
    failures.report(4000)
    assert "http://collector:4318 did not take 4320 spans" in caplog.records[-1].getMessage()
    assert len(caplog.records) == 2


def own_lines(caplog):
    """Return the lines of the server: the fixture also sees those that are not passed on."""
    return [record for record in caplog.records if record.name.startswith("mainstem.")]


@pytest.fixture
def sdk(clock):
    """A logger of the SDK whose lines are taken over."""
    logger = logging.getLogger("opentelemetry.test")
    handler = SdkLogs(clock)
    logger.addHandler(handler)
    logger.propagate = False
    yield logger
    logger.removeHandler(handler)
    logger.propagate = True


def test_a_line_of_the_sdk_loses_its_traceback(caplog, clock, sdk):
    for _ in range(3):
        try:
            raise ValueError("inside the SDK")
        except ValueError:
            sdk.exception("it\nbroke")
    (record,) = own_lines(caplog)
    assert record.exc_info is None
    assert record.getMessage() == "the OpenTelemetry SDK reports: it\\x0abroke"
    clock.now_s += limits.EXPORT_FAILURES_LOGGED_S
    sdk.warning("again")
    sdk.info("never")
    assert len(own_lines(caplog)) == 2


def test_an_exporter_reports_its_configuration_but_not_its_exports(caplog, clock):
    logger = logging.getLogger("opentelemetry.exporter.test")
    handler = SdkLogs(clock)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        exporting = threading.Thread(target=logger.error, args=["an export failed"])
        exporting.start()
        exporting.join()
        assert not own_lines(caplog)
        logger.warning("a variable is wrong")
        assert len(own_lines(caplog)) == 1
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
