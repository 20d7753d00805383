"""Stream sets, an extension of the protocol: many streams over one SSE connection, because browsers allow only six
connections per host.

    GET /v1/stream-set?stream=a&stream=b&live=sse[&resume=...]

Each `event: data` names its stream, and its id is a token that resumes all streams after it. The token holds the
offsets of all streams, so a single Last-Event-ID is enough.
"""

from base64 import b64encode
from collections import deque
from contextlib import ExitStack
from typing import Any

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import BadQuery, OffsetGone, StreamGone, StreamNotFound
from mainstem.http.asgi import Headers, Receive, Scope, Send
from mainstem.http.requests import collect_headers, parse_query
from mainstem.streams.reading.pump import EVENT_STREAM, Progress, reserve_readers, send_event_stream
from mainstem.streams.reading.reader import Page, Streams
from mainstem.streams.rules import content_types, json_mode, sse
from mainstem.streams.rules.base64url import decode_base64url, encode_base64url
from mainstem.streams.rules.offsets import Offset, parse_offset
from mainstem.streams.rules.paths import check_path
from mainstem.streams.states import StreamState


class SetEvent(msgspec.Struct, rename="camel", omit_defaults=True):
    """One event of a set. `data` is JSON as it was sent, text, or base64, according to `encoding`."""

    stream: str
    next_offset: str
    encoding: str | None = None
    data: Any = None
    up_to_date: bool = False
    closed: bool = False
    deleted: bool = False
    gone: bool = False


class Member:
    """One stream of a set, and the reader's position in it."""

    def __init__(self, path: str, state: StreamState, at: Offset) -> None:
        self.path = path
        self.state = state
        self.at = at
        self.end_sent = False
        """Whether an event with `upToDate` has been sent for the current end."""
        self.ended = False
        """Whether no more events will follow."""

    def remove_from(self, streams: Streams) -> None:
        streams.remove_live_reader(self.path, self.state)


class StreamSets:
    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.log = streams.log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = collect_headers(scope["headers"])
        members = await self._members(headers, scope)
        with reserve_readers(self.log.live, scope, "stream-set", len(members)), ExitStack() as stack:
            for member in members:
                self.streams.add_live_reader(member.path)
                stack.callback(member.remove_from, self.streams)
            topics = [stack.enter_context(self.log.live.watch(member.state.topic)) for member in members]
            feed = SetFeed(self.streams, members)
            await send_event_stream(self.log, topics, feed, EVENT_STREAM, scope, receive, send, "stream-set")

    async def _members(self, headers: Headers, scope: Scope) -> list[Member]:
        query = parse_query(scope)
        if [value for name, value in query if name == "live"] != ["sse"]:
            raise BadQuery("a stream set can only be read live; add live=sse")
        names = list(dict.fromkeys(value for name, value in query if name == "stream"))
        if not 1 <= len(names) <= limits.SET_STREAMS_MAX:
            raise BadQuery(f"name 1 to {limits.SET_STREAMS_MAX} streams with stream=PATH; this set has {len(names)}")
        tokens = [value for name, value in query if name == "resume"]
        token = headers.get(b"last-event-id", b"").decode("latin-1") or (tokens[-1] if tokens else "")
        start = next((value for name, value in query if name == "offset"), "-1")
        offsets = read_set_token(token) if token else {}
        identity: Identity = scope["mainstem.identity"]
        for path in names:  # before any of them is looked up, so that a refusal does not reveal which streams exist
            check_path(path)
            identity.require_read(path)
        members: list[Member] = []
        for path in names:
            state = await self.streams.find(path)
            self.streams.touch(path, state)
            at = self.streams.resolve(state, parse_offset(offsets.get(path, start)))
            members.append(Member(path, state, at))
        return members


class SetFeed:
    """The events of all members for one reader. Members take turns, so that a long stream does not delay the others."""

    def __init__(self, streams: Streams, members: list[Member]) -> None:
        self._streams = streams
        self._members = members
        self._behind: deque[Member] = deque()

    async def next_events(self) -> tuple[bytes, Progress]:
        if not self._behind:
            self._behind.extend(member for member in self._members if not member.ended)
        member = self._behind.popleft()
        event, done = await self._next_event(member)
        if not done:
            self._behind.append(member)
        events = b"" if event is None else _encode(event, self._members)
        if self._behind:
            return events, "behind"
        return events, "ended" if all(member.ended for member in self._members) else "caught up"

    async def _next_event(self, member: Member) -> tuple[SetEvent | None, bool]:
        """Return the next event of a member, if there is one, and whether the member is now up to date."""
        try:
            member.state = await self._streams.find(member.path, member.state.topic)
            page = await self._streams.read(member.state, member.at, limits.SSE_EVENT_BYTES)
        except (StreamNotFound, StreamGone):
            member.ended = True
            return SetEvent(member.path, str(member.at), deleted=True), True
        except OffsetGone:  # retention has overtaken this reader
            member.ended = True
            return SetEvent(member.path, str(member.at), gone=True), True
        if not page.data and member.end_sent and not page.closed:
            return None, True
        event = _event(member, page)
        if event.encoding is None and member.end_sent and not page.closed:
            return None, page.up_to_date  # the new bytes are an incomplete character
        member.end_sent = page.up_to_date
        member.ended = page.closed
        return event, page.up_to_date


def _event(member: Member, page: Page) -> SetEvent:
    content_type, data, end = member.state.content_type, page.data, page.end
    encoding: str | None = None
    value: Any = None
    if content_types.is_json(content_type):
        encoding, value = "json", msgspec.Raw(json_mode.wrap(data))
    elif content_types.is_text(content_type):
        if not page.closed:
            data = data[: sse.whole_characters(data)]
            end = Offset(page.start.read_seq, page.start.position + len(data))
        encoding, value = "text", data.decode("utf-8", "replace")
    else:
        encoding, value = "base64", b64encode(data).decode()
    member.at = end
    if end == page.start:
        encoding = value = None
    return SetEvent(member.path, str(end), encoding, value, page.up_to_date, page.closed)


def _encode(event: SetEvent, members: list[Member]) -> bytes:
    """Encode an event. It is split into lines, because JSON messages may contain line breaks between tokens."""
    kind = b"deleted" if event.deleted else b"gone" if event.gone else b"control" if event.encoding is None else b"data"
    lines = sse.encode_lines(msgspec.json.encode(event))
    return b"event: %b\n%bid:%b\n\n" % (kind, lines, make_set_token(members).encode())


def make_set_token(members: list[Member]) -> str:
    return encode_base64url(msgspec.json.encode({member.path: str(member.at) for member in members}))


def read_set_token(token: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(decode_base64url(token), type=dict[str, str])
    except (ValueError, msgspec.MsgspecError):
        raise BadQuery("resume, or Last-Event-ID, is not a token that this server sent for a stream set") from None
