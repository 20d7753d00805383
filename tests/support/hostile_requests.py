"""A corpus of requests that could be parsed in two ways, or in none. `%PATH%` stands for the path of a stream.

Each of `ILLEGAL` gets one error, stores nothing, and ends the connection, wherever it is split and whatever is around
it. Each of `LEGAL` looks odd but is one valid request, whose body is `BODY`.
"""

from typing import Final

BODY: Final = b"hello"
PATH: Final = b"%PATH%"
HOST: Final = b"Host: test\r\n"
TYPE: Final = b"Content-Type: text/plain\r\n"
LENGTH: Final = b"Content-Length: 5\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
# The request that would run if the body, or the rest of it, were taken for one.
SMUGGLED: Final = b"DELETE %PATH% HTTP/1.1\r\nHost: test\r\n\r\n"


def request(line: bytes = b"POST %PATH% HTTP/1.1", fields: bytes = HOST + TYPE + LENGTH, body: bytes = BODY) -> bytes:
    return line + b"\r\n" + fields + b"\r\n" + body


def with_field(field: bytes) -> bytes:
    return request(fields=HOST + TYPE + field + b"\r\n" + LENGTH)


def chunked(body: bytes) -> bytes:
    return request(fields=HOST + TYPE + CHUNKED, body=body)


def names(prefix: str, requests: list[bytes]) -> dict[str, bytes]:
    return {f"{prefix} {number}": raw for number, raw in enumerate(requests)}


CONTROLS: Final = [bytes([byte]) for byte in (*range(9), 11, 12, *range(14, 32), 127)]

REQUEST_LINES = [
    b"",
    b" ",
    b"POST",
    b"POST %PATH%",
    b"POST %PATH% ",
    b"POST  %PATH% HTTP/1.1",
    b"POST %PATH%  HTTP/1.1",
    b" POST %PATH% HTTP/1.1",
    b"POST\t%PATH%\tHTTP/1.1",
    b"POST %PATH% HTTP/1.1 ",
    b"POST %PATH% HTTP/1.1\t",
    b"POST %PATH% HTTP/1",
    b"POST %PATH% HTTP/1.",
    b"POST %PATH% HTTP/1.2",
    b"POST %PATH% HTTP/1.10",
    b"POST %PATH% HTTP/01.1",
    b"POST %PATH% HTTP/2.0",
    b"POST %PATH% HTTP/2",
    b"POST %PATH% HTTP/3",
    b"POST %PATH% HTTP/0.9",
    b"POST %PATH% http/1.1",
    b"POST %PATH% HTTPS/1.1",
    b"POST %PATH% XTTP/1.1",
    b"POST %PATH% HTTP1.1",
    b"POST %PATH% HTTP /1.1",
    b"POST %PATH% %PATH% HTTP/1.1",
    b"POST HTTP/1.1",
    b"%PATH% HTTP/1.1",
    b"post %PATH% HTTP/1.1",
    b"Post %PATH% HTTP/1.1",
    b"POST: %PATH% HTTP/1.1",
    b"PO ST %PATH% HTTP/1.1",
    b"P\x00ST %PATH% HTTP/1.1",
    b"FROBNICATE %PATH% HTTP/1.1",
    b"CONNECT test:80 HTTP/1.1",
    b"POST test:80 HTTP/1.1",
    b"POST * HTTP/1.1",
    b"POST v1/stream/x HTTP/1.1",
    b"POST \\v1\\stream\\x HTTP/1.1",
    b"POST %PATH%#fragment HTTP/1.1",
    b"POST #%PATH% HTTP/1.1",
    b"POST ftp://test%PATH% HTTP/1.1",
    b"POST http:%PATH% HTTP/1.1",
    b"POST http://%PATH% HTTP/1.1",
    b"POST http://te st%PATH% HTTP/1.1",
    b"POST http://user@test%PATH% HTTP/1.1",
    b"POST http://test:port%PATH% HTTP/1.1",
    b"POST %PATH%\x00 HTTP/1.1",
    b"POST %PATH%\xff HTTP/1.1",
    b"POST %PATH%\xc3\xa9 HTTP/1.1",
    b"POST %PATH%\x7f HTTP/1.1",
    b"POST %PATH%\r HTTP/1.1",
    b"POST %PATH%\n HTTP/1.1",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0",
    b"\xef\xbb\xbfPOST %PATH% HTTP/1.1",
    b"{}",
]

FIELDS = [
    b"NoColon",
    b": no name",
    b":",
    b" Folded: x",
    b"\tFolded: x",
    b"X: y\r\n folded",
    b"X: y\r\n\tfolded",
    b"Space : x",
    b"Tab\t: x",
    b"Two Words: x",
    b"\xe9: x",
    b"X\xc3\xa9: x",
    *(b"X%b: y" % bytes([byte]) for byte in b'"(),/;<=>?@[\\]{}'),
    *(b"X%b: y" % control for control in CONTROLS),
    *(b"X: y%bz" % control for control in CONTROLS),
    b"X: y\rz",
    b"X: y\nz",
    b"X: y\n",
    b"X: y\r",
    b"X: y\r\r",
    b"X: y\n\nDELETE %PATH% HTTP/1.1",
    b"X: y\r\rDELETE %PATH% HTTP/1.1",
]

LENGTHS = [
    b"",
    b" ",
    b"+5",
    b"-5",
    b"-0",
    b"0x5",
    b"5.0",
    b"5e0",
    b"5a",
    b"a5",
    b"5 5",
    b"5,5",
    b"5, 5",
    b"5;5",
    b'"5"',
    b"'5'",
    b"five",
    b"9" * 19,
    b"9" * 40,
    b"18446744073709551621",
    b"5\x0b",
    b"\xb2",
    b"\xd9\xa5",
    b"5\r\nContent-Length: 5",
    b"5\r\nContent-Length: 6",
    b"5\r\ncontent-length: 0",
    b"0\r\nContent-Length: 5",
    b"5\r\nTransfer-Encoding: chunked",
    b"5\r\ntransfer-encoding: identity",
    b"0\r\nTransfer-Encoding: chunked",
]

CODINGS = [
    b"",
    b"identity",
    b"gzip",
    b"gzip, chunked",
    b"chunked, gzip",
    b"chunked, chunked",
    b"chunked, identity",
    b"identity, chunked",
    b"chunked,",
    b",chunked",
    b"xchunked",
    b"chunkedx",
    b"chunke",
    b'"chunked"',
    b"chunked;q=1",
    b"chunked\x0b",
    b"chunk ed",
    b"chunked\r\nTransfer-Encoding: chunked",
    b"chunked\r\nTransfer-Encoding: identity",
    b"identity\r\nTransfer-Encoding: chunked",
    b"chunked\r\nContent-Length: 5",
    b"chunked\r\nContent-Length: 0",
]

CHUNKS = [
    b"x\r\nhello\r\n0\r\n\r\n",
    b"\r\nhello\r\n0\r\n\r\n",
    b" 5\r\nhello\r\n0\r\n\r\n",
    b"5 \r\nhello\r\n0\r\n\r\n",
    b"5\t\r\nhello\r\n0\r\n\r\n",
    b"+5\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"5\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhello0\r\n\r\n",
    b"5\r\nhello\r\r\n0\r\n\r\n",
    b"5\rhello\r\n0\r\n\r\n",
    b"4\r\nhello\r\n0\r\n\r\n",
    b"6\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n0\n\r\n",
    b"5\r\nhello\r\n0\r\n\n",
    b"5\r\nhello\r\n0\r\nNoColon\r\n\r\n",
    b"5\r\nhello\r\n0\r\n Folded: x\r\n\r\n",
    b"5\r\nhello\r\n0\r\nX : y\r\n\r\n",
    b"5\r\nhello\r\n0\r\nX: y\x00\r\n\r\n",
    b"5\r\nhello\r\n0\r\nX: y\n\r\n",
    b"5;a=\x00\r\nhello\r\n0\r\n\r\n",
    b"5;a=b\nhello\r\n0\r\n\r\n",
    b"5 ;a\r\nhello\r\n0\r\n\r\n",
    b"5;\r\nhello\r\n0\r\n\r\n",
    b"5;[a\r\nhello\r\n0\r\n\r\n",
    b'5;a="b\r\nhello\r\n0\r\n\r\n',
    b"5;a=\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n0\r\nContent-Length: 7\r\n\r\n",
    b"5\r\nhello\r\n0\r\ntransfer-encoding: chunked\r\n\r\n",
    b"5\r\nhello\r\n0\r\nHost: evil.example\r\n\r\n",
    b"5,5\r\nhello\r\n0\r\n\r\n",
    b"5_0\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n-0\r\n\r\n",
    b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    b"0000000000000005\r\nhello\r\n0\r\n\r\n",
    b"\xd9\xa5\r\nhello\r\n0\r\n\r\n",
]

HOSTS = [
    b"",
    b"Host: a\r\nHost: a\r\n",
    b"Host: a\r\nhost: b\r\n",
    b"Host: a b\r\n",
    b"Host: a,b/\r\n",
    b"Host: a/b\r\n",
    b"Host: a?b\r\n",
    b"Host: a#b\r\n",
    b"Host: user@a\r\n",
    b"Host: a\\b\r\n",
    b"Host: a:b\r\n",
    b"Host: a:1:2\r\n",
    b"Host: a:123456\r\n",
    b"Host: [::1\r\n",
    b"Host: ::1\r\n",
    b"Host: [g]\r\n",
    b"Host: \xff\r\n",
    b"Host: <script>\r\n",
    b"Host: " + b"a" * 300 + b"\r\n",
]

ILLEGAL: Final[dict[str, bytes]] = {
    **names("request line", [request(line) for line in REQUEST_LINES if line != b""]),
    **names("field", [with_field(field) for field in FIELDS]),
    **names("length", [request(fields=HOST + TYPE + b"Content-Length: " + text + b"\r\n") for text in LENGTHS]),
    **names(
        "coding",
        [
            request(
                fields=HOST + TYPE + b"Transfer-Encoding: " + text + b"\r\n", body=b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED
            )
            for text in CODINGS
        ],
    ),
    **names("chunk", [chunked(body) for body in CHUNKS]),
    **names("host", [request(fields=host + TYPE + LENGTH) for host in HOSTS]),
    **names(
        "line ends",
        [
            request().replace(b"\r\n", b"\n"),
            request().replace(b"\r\n", b"\r"),
            request().replace(b"\r\n", b"\n\r"),
            request().replace(b"\r\n", b"\r\r\n"),
            request().replace(b"HTTP/1.1\r\n", b"HTTP/1.1\n"),
            request().replace(b"\r\n\r\n", b"\n\n"),
            request().replace(b"\r\n\r\n", b"\r\n\n"),
            request().replace(b"\r\n\r\n", b"\n\r\n"),
            b"\n" + request(),
            b"\r" + request(),
            b"\r\n\r\n" + request(),
            b"\x00" + request(),
            b"GET %PATH%\r\n",
            b"GET %PATH%\n",
        ],
    ),
    "expectation": request(fields=HOST + TYPE + LENGTH + b"Expect: 200-ok\r\n"),
    "coding in 1.0": request(b"POST %PATH% HTTP/1.0", HOST + TYPE + CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"),
    "too many fields": request(fields=HOST + TYPE + b"X: y\r\n" * 250 + LENGTH),
    "too large": request(fields=HOST + TYPE + b"X: " + b"y" * 70_000 + b"\r\n" + LENGTH),
    "too large a trailer": chunked(b"5\r\nhello\r\n0\r\n" + b"X: " + b"y" * 9_000 + b"\r\n\r\n"),
    "too many trailers": chunked(b"5\r\nhello\r\n0\r\n" + b"X: y\r\n" * 2_000 + b"\r\n"),
    "too long an extension": chunked(b"5;" + b"x" * 9_000 + b"\r\nhello\r\n0\r\n\r\n"),
    "extensions without data": chunked(b"".join([b"1;" + b"x" * 4_000 + b"\r\nh\r\n"] * 6) + b"0\r\n\r\n"),
}

LEGAL: Final[dict[str, bytes]] = {
    "plain": request(),
    "an empty line before": b"\r\n" + request(),
    "names in any case": request(fields=b"hOsT: test\r\nCONTENT-TYPE: text/plain\r\ncontent-length: 5\r\n"),
    "spaces around values": request(
        fields=b"Host:  \t test \t\r\nContent-Type:text/plain\r\nContent-Length:   5  \r\n"
    ),
    "an empty value": with_field(b"X:"),
    "high bytes in a value": with_field(b"X: \xff\xe9 \xc3\xa9"),
    "tabs in a value": with_field(b"X: a\tb"),
    "leading zeros": request(fields=HOST + TYPE + b"Content-Length: 0005\r\n"),
    "absolute": request(b"POST http://test%PATH% HTTP/1.1"),
    "absolute in capitals": request(b"POST HTTP://TEST%PATH% HTTP/1.1"),
    "absolute, other host": request(b"POST http://localhost:1%PATH% HTTP/1.1"),
    "http 1.0": request(b"POST %PATH% HTTP/1.0", TYPE + LENGTH),
    "no host in 1.0": request(b"POST %PATH% HTTP/1.0", TYPE + LENGTH),
    "an empty host": request(fields=b"Host:\r\n" + TYPE + LENGTH),
    "chunked": chunked(b"5\r\nhello\r\n0\r\n\r\n"),
    "chunked in any case": request(
        fields=HOST + TYPE + b"transfer-encoding: CHUNKED\r\n", body=b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "tiny chunks": chunked(b"1\r\nh\r\n1\r\ne\r\n1\r\nl\r\n1\r\nl\r\n1\r\no\r\n0\r\n\r\n"),
    "capital sizes, zeros": chunked(b"0005\r\nhello\r\n000\r\n\r\n"),
    "extensions": chunked(b'5;a=b;c="d e"\r\nhello\r\n0;last\r\n\r\n'),
    "trailers": chunked(b"5\r\nhello\r\n0\r\nStream-Closed: true\r\nAuthorization: Bearer x\r\n\r\n"),
    "an offer of h2c": with_field(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk"),
    "an offer of a websocket": with_field(b"Connection: Upgrade\r\nUpgrade: websocket"),
    "an offer of something": with_field(b"Connection: keep-alive, upgrade\r\nUpgrade: TLS/1.0, x"),
    "an upgrade without its connection": with_field(b"Upgrade: websocket"),
    "a connection without its upgrade": with_field(b"Connection: upgrade"),
    "other hop-by-hop names": with_field(b"Connection: close-not, content-length, te\r\nTE: trailers\r\nKeep-Alive: x"),
    "a query": request(b"POST %PATH%?x=%00&y=/?://http://a HTTP/1.1"),
}
