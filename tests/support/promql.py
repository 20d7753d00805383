"""What a PromQL expression asks for: metrics, the labels that it compares, and those that it groups by."""

import re
from typing import NamedTuple

TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    |(?P<range>\[[^\]]*\])
    |(?P<number>(?:\d+(?:ms|[smhdwy]))+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)
    |(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<operator>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){},@])
    |(?P<space>\s+)""",
    re.VERBOSE | re.IGNORECASE,
)
GROUPINGS = frozenset(["by", "without", "on", "ignoring", "group_left", "group_right"])
WORDS = frozenset(["and", "or", "unless", "bool", "offset", "inf", "nan"])


class Comparison(NamedTuple):
    label: str
    operator: str
    value: str


class Selector(NamedTuple):
    metric: str
    comparisons: tuple[Comparison, ...] = ()


class Query(NamedTuple):
    selectors: list[Selector]
    groups: set[str]
    """Labels after `by`, `on` and the like."""


def parse(expression: str) -> Query:
    """Return the selectors of an expression. It need not be valid otherwise: promtool checks that."""
    tokens = _split(expression)
    query = Query([], set())
    position = 0
    while position < len(tokens):
        text, following = tokens[position], tokens[position + 1 : position + 2]
        position += 1
        if not re.match(r"[A-Za-z_:]", text) or text.lower() in WORDS:
            continue
        if text.lower() in GROUPINGS:
            if following == ["("]:
                end = tokens.index(")", position)
                query.groups.update(token for token in tokens[position + 1 : end] if token != ",")
                position = end + 1
        elif following == ["{"]:
            end = tokens.index("}", position)
            query.selectors.append(Selector(text, _compare(tokens[position + 1 : end])))
            position = end + 1
        elif following not in (["("], ["by"], ["without"]):  # otherwise a function
            query.selectors.append(Selector(text))
    return query


def _split(expression: str) -> list[str]:
    tokens, position = [], 0
    while position < len(expression):
        match = TOKEN.match(expression, position)
        assert match is not None, f"no PromQL at {expression[position:]!r}"
        if match.lastgroup not in ("space", "range"):
            tokens.append(match[0])
        position = match.end()
    return tokens


def _compare(tokens: list[str]) -> tuple[Comparison, ...]:
    words = [token for token in tokens if token != ","]
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    return tuple(Comparison(label, operator, value[1:-1]) for label, operator, value in triples)
