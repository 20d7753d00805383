"""The reason for a 401 in `WWW-Authenticate`, as RFC 9110 defines it: a reply to HEAD has no body to carry it."""

import re
from dataclasses import dataclass, field

from mainstem import limits

TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
PARAMETER = re.compile(rf'({TOKEN})[ \t]*=[ \t]*(?:({TOKEN})(?=[ \t]*(?:,|$))|"((?:[^"\\]|\\.)*)")')
SCHEME = re.compile(rf"({TOKEN})(?=[ \t]|,|$)")
TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))")
SEPARATORS = re.compile(r"[ \t,]*")


@dataclass(frozen=True)
class Challenge:
    """One way in which a server lets a client authenticate. Scheme and parameter names are in lower case."""

    scheme: str
    parameters: dict[str, str] = field(default_factory=dict)


def parse_challenges(header: str) -> list[Challenge]:
    """Return the challenges of a `WWW-Authenticate` header, up to the first part that is malformed."""
    challenges: list[Challenge] = []
    at = 0
    while (at := _skip(header, at)) < len(header):
        parameter = PARAMETER.match(header, at)
        if parameter is not None and challenges:
            name, plain, quoted = parameter.groups()
            value = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            challenges[-1].parameters.setdefault(name.lower(), value)
            at = parameter.end()
            continue
        scheme = SCHEME.match(header, at)
        if scheme is None:
            break
        challenges.append(Challenge(scheme[1].lower()))
        at = _skip(header, scheme.end())
        if PARAMETER.match(header, at) is None and (blob := TOKEN68.match(header, at)) and header[scheme.end()] != ",":
            at = blob.end()
    return challenges


def read_refusal(header: str) -> str:
    """Return what a server says about a token that it refused, on one line; empty if it says nothing."""
    for challenge in parse_challenges(header):
        said = challenge.parameters.get("error_description") or challenge.parameters.get("error")
        if said:
            line = " ".join("".join(c if c.isprintable() else " " for c in said).split())
            return line[: limits.CLIENT_ERROR_TEXT_BYTES_MAX]
    return ""


def _skip(header: str, at: int) -> int:
    separators = SEPARATORS.match(header, at)
    return at if separators is None else separators.end()
