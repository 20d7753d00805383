"""The page of limits says what `limits.py` says."""

import importlib
import re

import pytest

from mainstem import limits
from tests.docs.limits_page import PAGE, SOURCE, Limit, find_limits, format_value, settings_defaults, write_page

LIMITS = find_limits(SOURCE.read_text())


def test_the_page_is_made_from_the_code():
    assert PAGE.read_text() == write_page(), "run: python -m tests.docs.limits_page"


def test_every_number_in_the_module_is_a_limit_on_the_page():
    numbers = {name for name, value in vars(limits).items() if isinstance(value, int | float) and name.isupper()}
    assert {limit.name for limit in LIMITS} == numbers - {"KIB", "MIB"}
    assert len(LIMITS) > 250


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_every_limit_has_a_reason_that_is_a_sentence(limit: Limit):
    assert re.match(r"[A-Z`]", limit.reason), limit
    assert limit.reason.endswith("."), limit


def test_the_limits_that_are_settings_are_marked():
    assert settings_defaults() == set(re.findall(r"^\| `(\w+)` \* \|", PAGE.read_text(), re.MULTILINE))
    assert "PAGE_BYTES" in settings_defaults()


def test_the_limits_next_to_the_code_have_the_values_on_the_page():
    rows = re.findall(r"^\| `(\w+)` \| (\d+)(?: bits)? \| `([\w/]+)\.py` \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 3
    for name, value, module in rows:
        assert getattr(importlib.import_module("mainstem." + module.replace("/", ".")), name) == int(value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("BODY_BYTES_MAX", 64 * limits.MIB, "64 MiB"),
        ("HOST_BYTES_MAX", 262, "262 bytes"),
        ("BODY_BYTES_S_MIN", 64 * limits.KIB, "64 KiB per second"),
        ("SYNC_MESSAGES_S_MAX", 20_000, "20 000 per second"),
        ("LONG_POLL_MS_MAX", 600_000, "600 000 ms"),
        ("KEEP_ALIVE_S", 75, "75 s"),
        ("PRODUCER_LINGER_S", 0.005, "0.005 s"),
        ("CLOCK_STEP_US", 20_000, "20 ms"),
        ("SIGNING_KEY_US_MAX", 90 * 86_400_000_000, "90 days"),
        ("CONNECTIONS_MAX", 50_000, "50 000"),
    ],
)
def test_a_value_is_written_with_its_unit(name, value, text):
    assert format_value(name, value) == text


def test_a_reason_may_be_a_comment_beside_the_value():
    """As others write it; the docstring below is the usual form."""
    values = "A_MAX: Final = 5  # Why it is 5.\nB_MAX: Final = (\n    6\n)  # Why it is 6.\n"
    source = f'# Part\n{values}C_S: Final = 1.0\n"""Why\nit is 1."""\n'
    assert find_limits(source) == [
        Limit("A_MAX", "Part", "Why it is 5."),
        Limit("B_MAX", "Part", "Why it is 6."),
        Limit("C_S", "Part", "Why it is 1."),
    ]
