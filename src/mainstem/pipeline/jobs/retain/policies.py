"""Retention policies: the TOML file, and the rule that decides which messages of a partition or stream stay."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainstem import limits
from mainstem.errors import BadPolicy, BadRequest
from mainstem.globs import check_glob, matches
from mainstem.pipeline.jobs.targets import PARTITION, STREAM

AGE = re.compile(r"([1-9][0-9]{0,8})\s*(s|m|h|d|w)")
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
SIZE = re.compile(r"([1-9][0-9]{0,12})\s*(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?")
BYTES = {
    **{"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    **{"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
}


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What to keep of the partitions or streams that its globs match.

    A message is pruned when it exceeds any of the bounds. The requirements delay that until a snapshot or an archive
    has the message. With requirements and no bound, every message that fulfils them is pruned.
    """

    name: str
    kind: str
    globs: tuple[str, ...]
    keep: bool = False
    """Keep everything: an exception to the policies that follow."""
    max_age_s: int | None = None
    max_events: int | None = None
    max_bytes: int | None = None
    require_snapshot: bool = False
    require_archive: str | None = None

    def matches(self, name: str) -> bool:
        return any(matches(glob, name) for glob in self.globs)

    @property
    def bounded(self) -> bool:
        return self.max_age_s is not None or self.counted

    @property
    def counted(self) -> bool:
        """Whether it has a bound that depends on how much is left."""
        return self.max_events is not None or self.max_bytes is not None


class Policies:
    """Policies in the order of their file. The first one that matches a name applies."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self.all = tuple(policies)
        self._known: dict[tuple[str, str], int | None] = {}

    def find(self, kind: str, name: str) -> int | None:
        """Return the index of the policy for a partition or stream, or None if nothing of it may be pruned."""
        key = (kind, name)
        if key not in self._known:
            if len(self._known) >= limits.TARGETS_KNOWN_MAX:
                self._known.clear()
            chosen = (n for n, policy in enumerate(self.all) if policy.kind == kind and policy.matches(name))
            number = next(chosen, None)
            self._known[key] = None if number is None or self.all[number].keep else number
        return self._known[key]

    def has(self, kind: str) -> bool:
        return any(policy.kind == kind and not policy.keep for policy in self.all)

    def list_prefixes(self, kind: str) -> list[str]:
        """Return the prefixes of the names that the policies may prune, none of which is a prefix of another."""
        globs = [glob for policy in self.all if policy.kind == kind and not policy.keep for glob in policy.globs]
        prefixes = {glob.partition("*")[0].removesuffix("/") for glob in globs}
        return sorted(one for one in prefixes if not any(one != other and one.startswith(other) for other in prefixes))

    @property
    def archives(self) -> list[str]:
        return sorted({policy.require_archive for policy in self.all if policy.require_archive is not None})


# The policy file


def load_policies(path: Path) -> Policies:
    try:
        if path.stat().st_size > limits.POLICY_FILE_BYTES_MAX:
            raise BadPolicy(f"{path} is larger than {limits.POLICY_FILE_BYTES_MAX} bytes, the limit of a policy file")
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadPolicy(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadPolicy(f"{path} is not UTF-8") from None
    return parse_policies(text, str(path))


def parse_policies(text: str, source: str = "the policy file") -> Policies:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadPolicy(f"{source} is not valid TOML: {error}") from None
    given = document.pop("policy", [])
    if document:
        raise BadPolicy(f"{source}: unknown key {next(iter(document))!r}; a policy begins with [[policy]]")
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise BadPolicy(f"{source}: write [[policy]] with two brackets")
    if not 1 <= len(given) <= limits.POLICIES_MAX:
        raise BadPolicy(f"{source} has {len(given)} policies; it must have 1 to {limits.POLICIES_MAX}")
    policies = []
    for number, table in enumerate(given, 1):
        try:
            policies.append(_parse_policy(dict(table), number))
        except BadPolicy as error:
            raise BadPolicy(f"{source}, policy {number}: {error.detail}") from None
    return Policies(policies)


KEYS = (
    *("partitions", "streams", "name", "keep"),
    *("max_age", "max_events", "max_bytes", "require_snapshot", "require_archive"),
)


def _parse_policy(table: dict[str, Any], number: int) -> Policy:
    kinds = [kind for kind in (PARTITION, STREAM) if kind + "s" in table]
    if len(kinds) != 1:
        raise BadPolicy("give either partitions or streams")
    [kind] = kinds
    policy = Policy(
        name=_take(table, "name", str) or f"policy {number}",
        kind=kind,
        globs=_globs(table.pop(kind + "s")),
        keep=_take(table, "keep", bool) or False,
        max_age_s=_age(_take(table, "max_age", str)),
        max_events=_count(_take(table, "max_events", int)),
        max_bytes=_size(table.pop("max_bytes", None)),
        require_snapshot=_take(table, "require_snapshot", bool) or False,
        require_archive=_take(table, "require_archive", str),
    )
    if table:
        raise BadPolicy(f"unknown key {next(iter(table))!r}; the keys are {', '.join(KEYS)}")
    required = policy.require_snapshot or policy.require_archive is not None
    if policy.keep and (policy.bounded or required):
        raise BadPolicy("keep = true keeps everything: remove the bounds and requirements, or keep")
    if not (policy.keep or policy.bounded or required):
        raise BadPolicy(
            "it has no effect: give max_age, max_events, max_bytes, require_snapshot, require_archive, or keep = true"
        )
    return policy


def _take(table: dict[str, Any], name: str, type_: type) -> Any:
    value = table.pop(name, None)
    if value is not None and (not isinstance(value, type_) or (type_ is int and isinstance(value, bool))):
        raise BadPolicy(f"{name} must be {TYPES[type_]}, not {value!r}")
    return value


TYPES = {str: "a string in quotes", bool: "true or false", int: "a whole number"}


def _globs(value: Any) -> tuple[str, ...]:
    globs = [value] if isinstance(value, str) else value
    if not isinstance(globs, list) or not globs or not all(isinstance(glob, str) for glob in globs):
        raise BadPolicy("partitions or streams must be a glob in quotes, or a list of globs")
    for glob in globs:
        try:
            check_glob(glob)
        except BadRequest as error:
            raise BadPolicy(f"{glob!r}: {error.detail}") from None
    return tuple(globs)


def _age(text: str | None) -> int | None:
    if text is None:
        return None
    match = AGE.fullmatch(text)
    if match is None or int(match[1]) * SECONDS[match[2]] > limits.TTL_S_MAX:
        raise BadPolicy(f"max_age must be like '90s', '30m', '12h', '30d' or '4w', not {text!r}")
    return int(match[1]) * SECONDS[match[2]]


def _count(number: int | None) -> int | None:
    if number is not None and not 1 <= number <= limits.INTEGER_MAX:
        raise BadPolicy(f"max_events must be from 1 to {limits.INTEGER_MAX}")
    return number


def _size(value: Any) -> int | None:
    if value is None:
        return None
    match = SIZE.fullmatch(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    size = int(match[1]) * BYTES[match[2] or "B"] if match else 0
    if not 1 <= size <= limits.INTEGER_MAX:
        raise BadPolicy(f"max_bytes must be a number of bytes or like '512MiB' or '1GB', not {value!r}")
    return size
