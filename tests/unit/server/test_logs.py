import json
import logging
import re

import pytest

from mainstem.server.logs import configure_logs
from mainstem.server.settings import Settings


@pytest.fixture(autouse=True)
def root_logger():
    """Restore the logging configuration after the test."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in before[0]:
            handler.close()
    root.handlers[:], root.level = before


def test_json_lines_hold_one_event_each(capsys):
    configure_logs(Settings(log_format="json"))
    logging.getLogger("mainstem.x").warning("two\nlines and %s", "é")
    try:
        raise ValueError("the cause")
    except ValueError:
        logging.getLogger("mainstem.x").exception("failed")
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (first["level"], first["logger"], first["message"]) == ("warning", "mainstem.x", "two\nlines and é")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert "error" not in first
    assert second["message"] == "failed"
    assert "ValueError: the cause" in second["error"]


def test_text_lines_have_level_and_logger(capsys):
    configure_logs(Settings(log_format="text"))
    logging.getLogger("mainstem.x").info("hello")
    captured = capsys.readouterr()
    assert re.search(r"INFO +mainstem\.x +hello", captured.err)
    assert captured.out == ""


@pytest.mark.parametrize(("level", "seen"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_decides_what_is_written(capsys, level, seen):
    configure_logs(Settings(log_level=level))
    for name in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("mainstem"), name)("x")
    assert len(capsys.readouterr().err.splitlines()) == seen


def test_a_name_in_a_text_line_cannot_start_a_line_or_control_the_terminal(capsys):
    configure_logs(Settings(log_format="text"))
    logging.getLogger("mainstem.x").warning("webhook %s failed", "a\n2026 CRITICAL forged\x1b[2J\u202e")
    assert capsys.readouterr().err.endswith("webhook a\\x0a2026 CRITICAL forged\\x1b[2J\\u202e failed\n")
