"""Forks over HTTP, and their model: a plain list of what was appended."""

import json
import random

import httpx2

ROOT = "/v1/stream/"
TEXT = "text/plain"
JSON = "application/json"


def fork_headers(source: str, offset: str | None = None, sub_offset: int | None = None) -> dict[str, str]:
    headers = {"stream-forked-from": ROOT + source}
    if offset is not None:
        headers["stream-fork-offset"] = offset
    if sub_offset is not None:
        headers["stream-fork-sub-offset"] = str(sub_offset)
    return headers


def fork(
    client: httpx2.Client,
    path: str,
    source: str,
    offset: str | None = None,
    sub_offset: int | None = None,
    **extra: str,
) -> httpx2.Response:
    headers = fork_headers(source, offset, sub_offset) | {name.replace("_", "-"): text for name, text in extra.items()}
    return client.put(ROOT + path, headers=headers)


def read_all(client: httpx2.Client, path: str, offset: str = "-1") -> bytes:
    """Return everything from an offset, read page by page; for a JSON stream, its messages with commas."""
    parts: list[bytes] = []
    while True:
        page = client.get(f"{ROOT}{path}?offset={offset}")
        assert page.status_code == 200, page.text
        if page.headers["content-type"] == JSON:
            assert (page.content[:1], page.content[-1:]) == (b"[", b"]")
            parts += [page.content[1:-1]] if page.content != b"[]" else []
        else:
            parts.append(page.content)
        assert page.headers["stream-next-offset"] > offset or "stream-up-to-date" in page.headers
        offset = page.headers["stream-next-offset"]
        if "stream-up-to-date" in page.headers:
            return (b"," if page.headers["content-type"] == JSON else b"").join(parts)


class Branch:
    """A stream and its model: its appends, and the offset before each of them."""

    def __init__(self, client: httpx2.Client, path: str, content_type: str) -> None:
        self.client = client
        self.path = path
        self.content_type = content_type
        self.appends: list[list[bytes]] = []
        """The parts of each append: bytes, or messages in JSON mode. A sub-offset counts these."""
        self.offsets: list[str] = []

    def create(self) -> None:
        created = self.client.put(ROOT + self.path, headers={"content-type": self.content_type})
        assert created.status_code == 201
        self.offsets.append(created.headers["stream-next-offset"])

    def append(self, chance: random.Random) -> None:
        parts = [self._part(chance) for _ in range(chance.randint(1, 9))]
        body = b"[%b]" % b",".join(parts) if self.content_type == JSON else b"".join(parts)
        reply = self.client.post(ROOT + self.path, headers={"content-type": self.content_type}, content=body)
        assert reply.status_code == 204
        self.appends.append(parts)
        self.offsets.append(reply.headers["stream-next-offset"])

    def _part(self, chance: random.Random) -> bytes:
        if self.content_type != JSON:
            return bytes([chance.randrange(256)])
        # Forms that encoding again would change: a fork must return exactly the same bytes.
        number = chance.randrange(1000)
        forms = [f"{number}.0", f'"{number},]"', f'{{"b": {number}, "a":[{number}]}}', "[]", "null", '"é\\u00e9"']
        return chance.choice(forms).encode()

    def branch(self, path: str, chance: random.Random) -> "Branch":
        """Create a fork at a random position, often within an append."""
        child = Branch(self.client, path, self.content_type)
        at = chance.randint(0, len(self.appends))
        taken = chance.randint(0, len(self.appends[at])) if at < len(self.appends) else 0
        created = fork(self.client, path, self.path, self.offsets[at], taken or None)
        assert created.status_code == 201, created.text
        child.appends = [list(parts) for parts in self.appends[:at]]
        child.offsets = self.offsets[: at + 1]
        if taken:
            child.appends.append(self.appends[at][:taken])
            child.offsets.append(created.headers["stream-next-offset"])
        assert created.headers["stream-next-offset"] == child.offsets[-1]
        return child

    def check(self, chance: random.Random) -> None:
        assert read_all(self.client, self.path) == self.expected(0)
        at = chance.randrange(len(self.offsets))
        assert read_all(self.client, self.path, self.offsets[at]) == self.expected(at)

    def expected(self, at: int) -> bytes:
        parts = [part for append in self.appends[at:] for part in append]
        if self.content_type != JSON:
            return b"".join(parts)
        json.loads(b"[%b]" % b",".join(parts))  # the model itself must be consistent
        return b",".join(parts)
