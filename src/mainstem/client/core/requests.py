"""The requests about streams, complete except for what the client adds to every request. Nothing here does I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from mainstem import limits
from mainstem.client.core.errors import BadArgument
from mainstem.client.core.protocol import Producer, Request, check_headers, with_query
from mainstem.errors import BadPath
from mainstem.streams.rules.paths import check_path


@dataclass(frozen=True)
class StreamRequests:
    """The requests about streams that a server serves under `prefix`."""

    prefix: str

    def target(self, path: str, query: Mapping[str, str] | None = None) -> str:
        try:
            check_path(path)
        except BadPath as error:  # an HTTP library would turn "a/../b" into the path of another stream
            raise BadArgument(
                f"{path!r} is not the path of a stream ({error.detail}): write it without the server, like chat/1"
            ) from None
        return with_query(self.prefix + "/" + quote(path, safe="/~!$&'()*+,;=:@"), query)

    # Writing

    def create(
        self,
        path: str,
        content_type: str | None,
        *,
        call: str = "create",
        body: bytes = b"",
        ttl_s: int | None = None,
        expires_at: str | None = None,
        closed: bool = False,
        retention: str | None = None,
        forked_from: str | None = None,
        fork_offset: str | None = None,
        fork_sub_offset: int | None = None,
    ) -> Request:
        """Return a PUT. It changes nothing if the stream exists, so it may be sent again."""
        headers = {
            "content-type": content_type,
            "stream-ttl": None if ttl_s is None else str(ttl_s),
            "stream-expires-at": expires_at,
            "stream-closed": "true" if closed else None,
            "stream-retention": retention,
            "stream-forked-from": None if forked_from is None else self.target(forked_from),
            "stream-fork-offset": fork_offset,
            "stream-fork-sub-offset": None if fork_sub_offset is None else str(fork_sub_offset),
        }
        return Request("PUT", self.target(path), path, check_headers(headers), body, call=call)

    def append(
        self,
        path: str,
        body: bytes,
        content_type: str | None,
        *,
        seq: str | None = None,
        if_match: str | None = None,
        producer: Producer | None = None,
        close: bool = False,
        call: str = "append",
    ) -> Request:
        if seq is not None and not isinstance(seq, str):
            raise BadArgument(
                f"seq is {seq!r}; it must be a str. The server compares bytes, so pad numbers with leading zeros"
            )
        headers = {
            "content-type": content_type,
            "stream-seq": seq,
            "if-match": if_match,
            "stream-closed": "true" if close else None,
        }
        if producer is not None:
            producer_id, epoch, number = producer
            if not producer_id or not all(isinstance(value, int) and value >= 0 for value in (epoch, number)):
                raise BadArgument(f"producer is {producer!r}; it must be (id, epoch, seq), with numbers from 0")
            headers |= {"producer-id": producer_id, "producer-epoch": str(epoch), "producer-seq": str(number)}
        # A close without data changes nothing if the stream is already closed.
        safe = producer is not None or (close and not body)
        return Request("POST", self.target(path), path, check_headers(headers), body, safe=safe, call=call)

    def head(self, path: str, call: str = "head") -> Request:
        return Request("HEAD", self.target(path), path, call=call)

    def delete(self, path: str) -> Request:
        return Request("DELETE", self.target(path), path, call="delete")

    # Reading

    def read(self, path: str, offset: str, call: str = "read") -> Request:
        return Request("GET", self.target(path, {"offset": offset}), path, call=call)

    def read_tail(self, path: str, count: int) -> Request:
        return Request("GET", self.target(path, {"tail": str(count)}), path, call="read_tail")

    def read_live(self, path: str, offset: str, live: str, cursor: str | None) -> Request:
        query = {"offset": offset, "live": live}
        if cursor is not None:
            query["cursor"] = cursor
        headers, read_timeout_s = {}, limits.CLIENT_LONG_POLL_S
        if live == "sse":
            headers = {"accept": "text/event-stream", "accept-encoding": "identity"}
            read_timeout_s = limits.CLIENT_SSE_SILENCE_S
        return Request("GET", self.target(path, query), path, headers, read_timeout_s=read_timeout_s, call="follow")
