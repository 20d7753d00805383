"""Escape untrusted text for display, so that it can neither control a terminal nor reorder what is shown."""

import re
from typing import Final

# C0 and C1 controls, DEL, and the marks that change the direction of text (Unicode's Bidi_Control).
CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
IN_TEXT: Final = re.compile(f"[{CONTROLS}]")
IN_LINE: Final = re.compile(f"[{CONTROLS}\t\n\u2028\u2029]")


def escape_text(text: str) -> str:
    """Escape control characters in text of several lines, as \\x1b or \\u202e. Line breaks and tabs stay."""
    return IN_TEXT.sub(_escape, text)


def escape_line(text: str) -> str:
    """Escape control characters in a part of a line; line breaks and tabs are escaped too."""
    return IN_LINE.sub(_escape, text)


def escape_json(text: str) -> str:
    """Escape control characters in JSON text, with JSON's own escapes, so that the value stays the same."""
    return IN_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
