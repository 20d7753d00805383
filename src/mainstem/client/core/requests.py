"""The requests about streams, complete but for what the client adds to all of them. Nothing here does I/O."""

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
        except BadPath as error:  # on its way, "a/../b" would become the path of another stream
            raise BadArgument(
                f"{path!r} is not a stream's path ({error.detail}): write it without the server, as chat/1"
            ) from None
        return with_query(self.prefix + "/" + quote(path, safe="/~!$&'()*+,;=:@"), query)

    # Writing

    def create(
        self,
        path: str,
        content_type: str | None,
        *,
        body: bytes = b"",
        ttl_s: int | None = None,
        expires_at: str | None = None,
        closed: bool = False,
        retention: str | None = None,
        forked_from: str | None = None,
        fork_offset: str | None = None,
        fork_sub_offset: int | None = None,
    ) -> Request:
        """PUT does nothing to a stream that is there already, so it may be sent again."""
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
        return Request("PUT", self.target(path), path, check_headers(headers), body)

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
    ) -> Request:
        if seq is not None and not isinstance(seq, str):
            raise BadArgument(
                f"seq is {seq!r}; it is compared byte by byte, so write a number as text with leading zeros"
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
                raise BadArgument(f"{producer!r} is no producer: an id, an epoch from 0 and a seq from 0 are needed")
            headers |= {"producer-id": producer_id, "producer-epoch": str(epoch), "producer-seq": str(number)}
        # Closing alone does nothing to a stream that is closed.
        safe = producer is not None or (close and not body)
        return Request("POST", self.target(path), path, check_headers(headers), body, safe=safe)

    def head(self, path: str) -> Request:
        return Request("HEAD", self.target(path), path)

    def delete(self, path: str) -> Request:
        return Request("DELETE", self.target(path), path)

    # Reading

    def read(self, path: str, offset: str) -> Request:
        return Request("GET", self.target(path, {"offset": offset}), path)

    def read_tail(self, path: str, count: int) -> Request:
        return Request("GET", self.target(path, {"tail": str(count)}), path)

    def read_live(self, path: str, offset: str, live: str, cursor: str | None) -> Request:
        query = {"offset": offset, "live": live}
        if cursor is not None:
            query["cursor"] = cursor
        if live == "sse":
            headers = {"accept": "text/event-stream", "accept-encoding": "identity"}
            return Request("GET", self.target(path, query), path, headers, read_timeout_s=limits.CLIENT_SSE_SILENCE_S)
        return Request("GET", self.target(path, query), path, read_timeout_s=limits.CLIENT_LONG_POLL_S)
