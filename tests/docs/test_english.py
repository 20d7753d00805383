"""Phrases that readers stumble over do not come back: see "How we write English" in CONTRIBUTING.md.

The list holds only phrases that are wrong wherever they appear. Add one when a review finds it twice.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PROSE = [*sorted(page.name for page in ROOT.glob("*.md")), "docs", "src", "examples", "bench", "tests"]
SUFFIXES = {".py", ".md", ".html", ".js", ".mjs"}
SKIPPED = {"node_modules", "results", "__pycache__"}
TABLE = re.compile(r"^\| write \| not \|\n(?:\|.*\n)*", re.MULTILINE)
"""The table in CONTRIBUTING.md that quotes such phrases."""

THINGS = r"append|committed id|cursor|end|floor|fork point|id|last|message|offset|page|position|record|snapshot|write"
UNITS = r"(?:command|commit|cursor|entry|event|file|line|message|module|record|reply|request|result|row|statement|task)"
TIMES = r"second|minute|hour|day|week|month|time"
TOLD = r"about|apart|how|that|to|what|when|which|why"
VERBS = (
    r"again|answer|answers|disappears?|does that|do that|finds it|found|gets? it|goes|heals?|on|reconnects?|replaced"
)

PHRASES = {
    # Words
    r"whoever": "the client that ..., any client",
    r"anew": "again, from scratch",
    r"heals": "recovers",
    r"an own": "its own",
    r"informations": "information",
    r"lets? go(?: of)?": "releases, disconnects, closes",
    r"mean(?:s|t)? nothing": "has no effect, is ignored, is invalid",
    r"makes? no sense": "is invalid",
    r"gives? back": "returns, releases",
    r"over (?:a |any number of )?(?:restarts?|reconnects?)": "across restarts",
    r"without a word": "without a message, silently",
    # Clauses
    r"as (?:it|they) should be": "valid; not so: invalid, malformed, corrupt",
    r"(?<!and )also (?:if|when)": "even if, even when",
    rf"(?:is|are|was|were) told(?! (?:{TOLD}))": "receives, is reported",
    r"(?:tells?|told) of": "reports, lists",
    r"hears? of": "receives, learns about",
    r"(?:that|which) (?:is|are) none": "that is invalid, that is not one",
    r"what is no(?! longer)": "text that is not a ...",
    r"(?:that|which) (?:is|are) not there": "missing, that does not exist",
    r"does not allow to": "does not allow reading, writing, ...",
    # Places and numbers
    rf"behind (?:an?|each|every|its|that|the|their|this) (?:{THINGS})": "after the ..., from the ...",
    r"(?:events|messages|offset|paths|records|rows) behind (?:an?|it|that|the|this)": "after it",
    r"(?:lie|lies|stands?|reads? on|go on|goes on) behind": "follow, after",
    rf"one {UNITS} an? (?!{TIMES})[a-z]+": "one ... per ...",
    rf"(?:{VERBS}) by (?:itself|themselves)": "automatically",
}


class Finding(NamedTuple):
    line: int
    phrase: str
    instead: str


PATTERNS = [
    (re.compile(rf"\b(?:{phrase.replace(' ', chr(92) + 's')})\b", re.IGNORECASE), instead)
    for phrase, instead in PHRASES.items()
]


def find_phrases(text: str) -> list[Finding]:
    """Return the phrases of the list, even if they are wrapped across lines or part of a test's name."""
    text = re.sub(r"\bdef test_\w+", lambda name: name[0].replace("_", " "), text)
    text = re.sub(r"\n[ \t]*(?:#+ )?", "\n", text)
    return sorted(
        Finding(text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), instead)
        for pattern, instead in PATTERNS
        for found in pattern.finditer(text)
    )


def find_files(name: str) -> Iterator[Path]:
    path = ROOT / name
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    for file in files:
        if file.suffix in SUFFIXES and not SKIPPED.intersection(file.parts) and file != Path(__file__):
            yield file


def read(file: Path) -> str:
    """Return the text of a file; the table of CONTRIBUTING.md is blank."""
    text = file.read_text(encoding="utf-8")
    if file.name == "CONTRIBUTING.md":
        text = TABLE.sub(lambda table: "\n" * table[0].count("\n"), text)
    return text


@pytest.mark.parametrize("name", PROSE)
def test_the_prose_has_no_phrase_of_the_list(name: str) -> None:
    files = list(find_files(name))
    assert files
    found = [
        f"{file.relative_to(ROOT)}:{finding.line}: {finding.phrase!r}: write {finding.instead!r}"
        for file in files
        for finding in find_phrases(read(file))
    ]
    assert not found, "\n".join(found)


# The list itself

WRONG = [
    "It keeps its data over restarts.",
    "Every connection survives over a restart.",
    "The body is not as it should be.",
    "Here a limit means nothing.",
    "A policy that makes no sense is refused.",
    "The request waits, also when nobody reads.",
    "A worker is told at once.",
    "It tells of the events that were lost.",
    "Whoever asks again gets the same answer.",
    "The view is folded anew.",
    "The server lets go of its readers.",
    "A node heals.",
    "Begin behind this committed id.",
    "Read the messages behind it.",
    "It takes what lies behind.",
    "one file a noun",
    "# 3. One record an append",
    "A server on this machine is found by itself.",
    "Writes go on by themselves.",
    "A stream that is not there is an error.",
    "An own event comes back.",
    "this token does not allow to read 'a'",
    "The informations are old.",
    "The loop gives back what it took.",
    "The connection ends without a word.",
    "The client hears of it later.",
    "A host that is none is ignored.",
    "The server refuses what is no token.",
    "def test_whoever_waits_gets_an_answer():",
    "The rows come in order, also\n    # if there are none.",
]
RIGHT = [
    "Run the server behind a proxy.",
    "A reader that has fallen behind catches up.",
    "The test fails before the gate, and also if it ends later.",
    "Write one message a minute.",
    "A clock that moves only when it is told to.",
    "A worker is told which streams have new data.",
    "There is no stream of that name.",
    "Each part is checked by itself.",
    "It ends after what is no longer kept.",
]


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_phrase_is_found_with_a_suggestion(text: str) -> None:
    [finding] = find_phrases(f"A first line.\n{text}\n")
    assert finding.line == 2
    assert finding.instead


@pytest.mark.parametrize("text", RIGHT)
def test_a_correct_sentence_is_accepted(text: str) -> None:
    assert find_phrases(text) == []


def test_every_phrase_has_an_example() -> None:
    assert not [pattern.pattern for pattern, _ in PATTERNS if not any(pattern.search(text) for text in WRONG)]


def test_only_the_table_of_the_guide_may_quote_a_wrong_phrase(tmp_path: Path) -> None:
    guide = tmp_path / "CONTRIBUTING.md"
    guide.write_text("| write | not |\n|---|---|\n| again | anew |\n\nThe view is folded anew.\n")
    assert [finding.line for finding in find_phrases(read(guide))] == [5]
