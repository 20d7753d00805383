import json
import unicodedata

import pytest

from mainstem.escaping import escape_json, escape_line, escape_text

EVERYTHING = [chr(code) for code in range(0x11_0000) if not 0xD800 <= code < 0xE000]
DANGEROUS = [
    char
    for char in EVERYTHING
    if unicodedata.category(char) == "Cc"
    or unicodedata.bidirectional(char) in ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    or char in "\u061c\u200e\u200f"
]


def test_every_control_character_and_direction_mark_is_escaped():
    assert [char for char in DANGEROUS if char not in "\n\t" and char in escape_text(char)] == []
    assert [char for char in DANGEROUS if char in escape_line(char)] == []


def test_all_other_text_is_unchanged():
    harmless = "".join(sorted(set(EVERYTHING) - set(DANGEROUS)))
    assert escape_text(harmless + "\n\t") == harmless + "\n\t"
    assert escape_line(harmless) == harmless.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x1b[2J", "\\x1b[2J"), ("a\rb", "a\\x0db"), ("\x9b31m", "\\x9b31m"), ("\u202egpj.exe", "\\u202egpj.exe")],
)
def test_a_dangerous_character_is_shown_as_its_escape(text, shown):
    assert escape_text(text) == escape_line(text) == shown


def test_escaped_json_has_the_same_value():
    value = {"a\u202e": ["".join(DANGEROUS), "é"]}
    text = escape_json(json.dumps(value, ensure_ascii=False))
    assert not set(text) & set(DANGEROUS)
    assert json.loads(text) == value
