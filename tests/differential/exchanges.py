"""Sends the steps of a script to one server, and keeps what later steps refer to."""

import http.client
import re
from dataclasses import dataclass, field
from typing import Final

from tests.differential.scripts import ETAG, OFFSET, Step

REPLY_S_MAX: Final = 30.0
LIVE_S_MAX: Final = 3.0
"""How long to wait for the reply to a live read. All servers wait longer than this for new data."""
ROOT: Final = "/v1/stream/"
NO_REPLY: Final = 0
"""The status of a request that the server has not answered in time, or has answered by closing the connection."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 400


class Peer:
    """A server, and the offsets and ETags that it has reported for each stream of the current script."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REPLY_S_MAX)
        self._script = ""
        self._offsets: dict[str, list[str]] = {}
        """In the order in which each was last reported."""
        self._etags: dict[str, str] = {}

    def begin(self, script: str) -> None:
        """Begin a script, whose streams are not those of any other."""
        self._script = script
        self._offsets, self._etags = {}, {}

    def learn(self, step: Step, reply: Reply, name: str) -> None:
        """Remember the offset or ETag in a reply, for later steps that refer to it."""
        value = reply.headers[name]
        if name == "etag":
            self._etags[step.stream] = value
            return
        known = self._offsets.setdefault(step.stream, [])
        if value in known:
            known.remove(value)  # a server may give the offsets of a deleted stream to the next one at its path
        known.append(value)

    def send(self, step: Step) -> Reply:
        target = ROOT + self.name_of(step.stream) + self._fill(step.query, step.stream)
        about = step.source or step.stream
        self._connection.timeout = LIVE_S_MAX if "live=" in step.query else REPLY_S_MAX
        try:
            if self._connection.sock is not None:
                self._connection.sock.settimeout(self._connection.timeout)
            self._connection.putrequest(step.method, target)
            for name, value in step.headers:
                self._connection.putheader(name, self._fill(value, about))
            if step.method in ("PUT", "POST", "PATCH"):
                self._connection.putheader("content-length", str(len(step.body)))
            self._connection.endheaders(step.body or None)
            with self._connection.getresponse() as response:
                return Reply(response.status, {n.lower(): v for n, v in response.getheaders()}, response.read())
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return Reply(NO_REPLY)

    def name_of(self, stream: str) -> str:
        return f"{self._script}-{stream}"

    def _fill(self, text: str, stream: str) -> str:
        known = self._offsets.get(stream) or ["-1"]
        text = re.sub(rf"{OFFSET}(\d)", lambda found: known[-1 - int(found[1]) % len(known)], text)
        text = re.sub(r"\{(\w+)\}", lambda found: self.name_of(found[1]), text)
        return text.replace(ETAG, self._etags.get(stream, '"none"'))

    def close(self) -> None:
        self._connection.close()
