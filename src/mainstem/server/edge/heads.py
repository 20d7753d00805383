"""Request heads: strict parsing, and the framing of the body.

A head that could be read in two ways is refused (RFC 9112, sections 2 to 7): a proxy between a client and this server
must see the same requests as the server.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from mainstem import limits
from mainstem.errors import BadRequest, ExpectationFailed, HeadTooLarge, RepeatedHeader
from mainstem.http.request_ids import accept_request_id

Field = tuple[bytes, bytes]
replace = msgspec.structs.replace

LINE_ENDS: Final = "every line of a request head must end with CRLF"
END: Final = b"\r\n\r\n"
METHODS: Final = frozenset([b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE"])
TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
REQUEST_LINE = re.compile(rb"(" + TOKEN + rb") ([!-~]+) HTTP/1\.([01])")
FIELD = re.compile(rb"(" + TOKEN + rb"):([\t -~\x80-\xff]*)")
HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
ABSOLUTE = re.compile(rb"https?://([^/?#]+)([/?].*)?", re.IGNORECASE)
LENGTH = re.compile(rb"[0-9]{1,18}")
CONTROLS: Final = bytes([*range(9), 11, 12, *range(14, 32), 127])
"""Bytes that a head must not contain: all controls except tab, CR and LF."""
ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# The headers that decide the framing of a request.
FRAMING: Final = frozenset([b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"expect"])
UNKNOWN_LENGTH: Final = -1
"""The length of a chunked body."""


class RequestHead(msgspec.Struct):
    """A request without its body. Header names are in lower case."""

    method: bytes
    path: bytes
    """Percent-encoded, but only where it is necessary: `%5F` becomes `_`."""
    query: bytes
    minor: int
    """The minor HTTP version: 1 for HTTP/1.1."""
    headers: list[Field]
    fields: dict[bytes, bytes] | None = None
    """The headers by name; None if a name is repeated."""
    length: int = 0
    """The length of the body in bytes, or UNKNOWN_LENGTH."""
    keep_alive: bool = True
    websocket: bool = False
    """Whether it is a WebSocket handshake. Any other Upgrade is ignored, as RFC 9110 section 7.8 allows."""
    expects_continue: bool = False
    request_id: bytes = b""
    """The `X-Request-Id` of the client, if it is plain and short enough to be repeated."""
    route: str = ""
    """The name of its route in metrics and logs, once an observer has found it."""
    observed: Any = None
    """What an observer remembers with it."""
    raw: bytes = b""
    plan: Any = None
    """What `Heads` was told to remember with it."""


# Numbers that differ between the requests of one client, in the spellings that clients use: a length, a counter, and
# the hexadecimal ids of a trace. A length of 0 frames the request differently, so decimal numbers that begin with 0 are
# left where they are.
NUMBERS = re.compile(
    rb"(\r\n(?:"
    rb"(?:[Cc]ontent-[Ll]ength|[Pp]roducer-[Ss]eq): (?=[1-9][0-9]{0,15}(?:\r\n|\Z))"
    rb"|[Tt]raceparent: (?=00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:\r\n|\Z))"
    rb"))([0-9a-f-]+)"
)
NUMBER_BYTES_MAX: Final = 16
COUNTER: Final = b"producer-seq"
ONE: Final = b"1"
NO_TRACE: Final = b"00-%032x-%016x-00" % (0, 0)
"""In place of the ids of a trace. It has their form: what a kind is called must be of the same kind."""


class KnownHead(msgspec.Struct, weakref=True, eq=False):
    """The latest head of a kind, and its numbers."""

    head: RequestHead
    numbers: list[bytes]
    places: list[int]
    """Where the headers with these numbers are in `head.headers`."""
    counter: int = 0
    """Which of the numbers changes most often."""
    before: bytes = b""
    """The head up to that number; empty if it has no numbers."""
    after: bytes = b""
    """What follows that number, and the empty line at the end."""
    first: bytes = b""
    """The bytes of the first head of this kind, if it is remembered."""

    def match(self, data: bytes) -> RequestHead | None:
        """Return the head at the beginning of the data if it is the latest one, except perhaps for the counter."""
        raw, before, after = self.head.raw, self.before, self.after
        if data.startswith(raw) and data.startswith(END, len(raw)):
            return self.head
        if not before or not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r", start, start + NUMBER_BYTES_MAX + 1)
        number = data[start:end]
        if end < 0 or not number.isdigit() or number.startswith(b"0") or not data.startswith(after, end):
            return None
        numbers = self.numbers.copy()
        numbers[self.counter] = number
        return self._renumber(numbers, data[: end + len(after) - len(END)])

    def change(self, parts: list[bytes], raw: bytes) -> None:
        """Make a head of this kind the latest. `parts` are its bytes, split at `NUMBERS`."""
        numbers = parts[2::3]
        if numbers:
            self._renumber(numbers, raw)
            middle = 3 * self.counter + 2
            self.before, self.after = b"".join(parts[:middle]), b"".join([*parts[middle + 1 :], END])

    def _renumber(self, numbers: list[bytes], raw: bytes) -> RequestHead:
        head = self.head
        assert head.fields is not None
        headers, fields, length = head.headers.copy(), head.fields.copy(), head.length
        for index, number in enumerate(numbers):
            if number != self.numbers[index]:
                place = self.places[index]
                name = headers[place][0]
                headers[place] = (name, number)
                fields[name] = number
                if name == b"content-length":
                    length = int(number)
        self.head = replace(head, headers=headers, fields=fields, length=length, raw=raw)
        self.numbers = numbers
        return self.head


class Heads:
    """Parses heads, and remembers them, because clients send the same head again and again.

    Heads that differ only in `NUMBERS` are of one kind: the first is parsed, and the others get their own numbers.
    `plan` is called with the first one, and all share what it returns, so that must not depend on the numbers.
    """

    def __init__(self, plan: Callable[[RequestHead], Any] | None = None) -> None:
        self._plan = plan
        self._known: dict[bytes, KnownHead] = {}
        """By the bytes of the head with other numbers, the same for all heads of a kind; the oldest comes first."""
        self._by_first: dict[bytes, KnownHead] = {}
        """The same heads by the bytes of the first of their kind, because their numbers often stay the same."""
        self._known_bytes = 0

    def parse(self, raw: bytes) -> KnownHead:
        """Return the head in these bytes, which exclude the empty line at the end, as the latest of its kind.

        Heads are shared: do not change one.
        """
        latest = self._by_first.get(raw)
        if latest is not None and latest.head.raw == raw:
            return latest
        if len(raw) > limits.HEAD_KNOWN_BYTES_MAX:
            return KnownHead(self._parse(raw), [], [])
        parts = NUMBERS.split(raw)
        kind = raw if len(parts) == 1 else _name_kind(parts)
        known = self._known.get(kind)
        if known is None:
            known = self._describe(self._parse(raw), parts)
            # A repeated name could be one of those with a number, and no handshake is sent twice.
            if known.head.fields is not None and not known.head.websocket:
                self._remember(kind, known)
        elif known.head.raw != raw:
            known.change(parts, raw)
        return known

    def _parse(self, raw: bytes) -> RequestHead:
        head = parse_head(raw)
        if self._plan is not None:
            head.plan = self._plan(head)
        return head

    @staticmethod
    def _describe(head: RequestHead, parts: list[bytes]) -> KnownHead:
        """Return what to remember of a new head; `parts` are its bytes, split at `NUMBERS`."""
        if head.fields is None:
            return KnownHead(head, [], [])
        names = [begin[2:-2].lower() for begin in parts[1::3]]
        places = [[name for name, _ in head.headers].index(name) for name in names]
        known = KnownHead(head, parts[2::3], places, names.index(COUNTER) if COUNTER in names else 0)
        known.change(parts, head.raw)
        return known

    def _remember(self, kind: bytes, known: KnownHead) -> None:
        known.first = known.head.raw
        self._known[kind] = self._by_first[known.first] = known
        self._known_bytes += len(kind) + len(known.first)
        while len(self._known) > limits.HEADS_KNOWN_MAX or self._known_bytes > limits.HEADS_KNOWN_BYTES_MAX:
            oldest = next(iter(self._known))
            first = self._known.pop(oldest).first
            del self._by_first[first]
            self._known_bytes -= len(oldest) + len(first)


def _name_kind(parts: list[bytes]) -> bytes:
    """Return the head that stands for all heads of its kind. `parts` are the bytes of one, split at `NUMBERS`."""
    ones = parts.copy()
    ones[2::3] = [ONE if number.isdigit() else NO_TRACE for number in parts[2::3]]
    return b"".join(ones)


def parse_head(raw: bytes) -> RequestHead:
    """Return the head in these bytes, which exclude the empty line at the end."""
    lines = raw.split(b"\r\n")
    breaks = len(lines) - 1
    if raw.count(b"\n") != breaks or raw.count(b"\r") != breaks:
        raise BadRequest(LINE_ENDS)
    if breaks > limits.REQUEST_HEADERS_MAX:
        raise HeadTooLarge(f"the request has more than {limits.REQUEST_HEADERS_MAX} headers")
    line = lines.pop(0)
    short = len(line) <= LINE_REMEMBERED_BYTES
    method, minor, path, query, authority = parse_known_start(line) if short else parse_start(line)
    headers = [parse_field(line) if len(line) <= LINE_REMEMBERED_BYTES else split_field(line) for line in lines]
    fields = dict(headers)
    request = RequestHead(method, path, query, minor, headers, fields, keep_alive=minor == 1, raw=raw)
    if len(fields) != len(headers):
        request.fields = None
        fields = join_framing(headers)
    else:
        request.request_id = accept_request_id(fields.get(b"x-request-id"))
    frame(request, fields, authority)
    return request


def parse_start(line: bytes) -> tuple[bytes, int, bytes, bytes, bytes | None]:
    """Return method, minor version, path, query and, for an absolute target, the authority of a request line."""
    method, target, minor = parse_request_line(line)
    return method, minor, *parse_target(method, target)


def parse_request_line(line: bytes) -> tuple[bytes, bytes, int]:
    match = REQUEST_LINE.fullmatch(line)
    if match is None:
        raise BadRequest("the request line is malformed; it must look like this: GET /path HTTP/1.1")
    method, target, minor = match.groups()
    if method not in METHODS:
        raise BadRequest(f"unknown method; use one of {', '.join(sorted(known.decode() for known in METHODS))}")
    return method, target, int(minor)


def split_field(line: bytes) -> Field:
    match = FIELD.fullmatch(line)
    if match is None:
        raise BadRequest("a header line is malformed")
    name, value = match.groups()
    return name.lower(), value.strip(b" \t")


# Different heads still have lines in common. Only short ones are cached, so that nobody can fill the memory with them.
LINE_REMEMBERED_BYTES: Final = 128
parse_known_start = lru_cache(maxsize=4096)(parse_start)
parse_field = lru_cache(maxsize=4096)(split_field)


def parse_target(method: bytes, target: bytes) -> tuple[bytes, bytes, bytes | None]:
    """Return the path, the query and, for an absolute target, the authority (RFC 9112, section 3.2)."""
    authority = None
    if b"#" in target:
        raise BadRequest("the request target must not contain a fragment (#)")
    if not target.startswith(b"/"):
        if target == b"*" and method == b"OPTIONS":
            return target, b"", None
        match = ABSOLUTE.fullmatch(target)
        if match is None:
            raise BadRequest("the request target must be a path or an http(s) URL")
        authority, target = match[1], match[2] or b"/"
        if not target.startswith(b"/"):
            target = b"/" + target
    path, _, query = target.partition(b"?")
    return normalise_path(path), query, authority


def normalise_path(path: bytes) -> bytes:
    """Return the path with escapes only where they are needed (RFC 3986, section 6.2.2.2).

    A path then has one spelling, for every rule that looks at it.
    """
    return ESCAPE.sub(_unescape, path) if b"%" in path else path


def _unescape(match: re.Match[bytes]) -> bytes:
    byte = int(match[1], 16)
    return bytes([byte]) if byte in UNRESERVED else match[0].upper()


def join_framing(headers: list[Field]) -> dict[bytes, bytes]:
    """Return the headers that decide the framing, of a head with repeated names."""
    seen: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in FRAMING:
            if name not in seen:
                seen[name] = value
            elif name in (b"connection", b"upgrade"):
                seen[name] += b"," + value
            elif name == b"host":
                raise RepeatedHeader("host was sent more than once")
            else:
                raise BadRequest(f"{name.decode()} was sent more than once")
    return seen


def frame(request: RequestHead, seen: dict[bytes, bytes], authority: bytes | None) -> None:
    """Set the fields of the head that say where the request ends, and what happens to the connection."""
    _check_host(request, seen.get(b"host"), authority)
    length, coding = seen.get(b"content-length"), seen.get(b"transfer-encoding")
    if coding is not None:
        if length is not None or request.minor == 0 or coding.lower() != b"chunked":
            raise BadRequest("Transfer-Encoding must be just chunked, in HTTP/1.1 and without a Content-Length")
        request.length = UNKNOWN_LENGTH
    elif length is not None:
        if LENGTH.fullmatch(length) is None:
            raise BadRequest("Content-Length must be a decimal number")
        request.length = int(length)
    if b"connection" in seen:
        options = [option.strip(b" \t") for option in seen[b"connection"].lower().split(b",")]
        if b"close" in options:
            request.keep_alive = False
        if b"upgrade" in options:
            request.websocket = _asks_for_websocket(request, seen.get(b"upgrade", b""))
    if b"expect" in seen:
        if seen[b"expect"].lower() != b"100-continue":
            raise ExpectationFailed("the only supported expectation is 100-continue")
        request.expects_continue = request.minor == 1 and request.length != 0


def is_host(text: bytes) -> bool:
    return len(text) <= limits.HOST_BYTES_MAX and HOST.fullmatch(text) is not None


def _check_host(request: RequestHead, host: bytes | None, authority: bytes | None) -> None:
    if host is None:
        if request.minor == 1:
            raise BadRequest("the Host header is missing")
    elif not is_host(host):
        raise BadRequest("the Host header is malformed")
    if authority is not None:  # an absolute target overrides Host (RFC 9112, section 3.2.2)
        if not is_host(authority):
            raise BadRequest("the host of the request target is malformed")
        request.headers = [field for field in request.headers if field[0] != b"host"]
        request.headers.insert(0, (b"host", authority))
        if request.fields is not None:
            request.fields[b"host"] = authority


def _asks_for_websocket(request: RequestHead, upgrade: bytes) -> bool:
    protocols = [protocol.strip(b" \t") for protocol in upgrade.lower().split(b",")]
    return b"websocket" in protocols and request.method == b"GET" and request.length == 0 and request.minor == 1


def check_beginning(data: bytes, start: int) -> None:
    """Refuse bytes that cannot become a head any more. Only `data[start:]` is new, and only that is checked."""
    new = data[max(start - 1, 0) :]
    if len(new.translate(None, CONTROLS)) != len(new):
        raise BadRequest("the request head contains control characters")
    pairs = new.count(b"\r\n")
    if new.count(b"\n", 1 if start else 0) != pairs or new.count(b"\r") - new.endswith(b"\r") != pairs:
        raise BadRequest(LINE_ENDS)
    end_of_line = data.find(b"\r\n")
    if end_of_line >= max(start - 1, 0):
        parse_request_line(data[:end_of_line])
