"""`/console`, the web console, and `/`, the page that a browser sees first.

The files are public: they hold no data, and every request that the pages send is checked like any other request.
"""

import shlex
from collections.abc import Callable
from html import escape
from importlib import resources
from typing import Final

import msgspec

from mainstem import __version__
from mainstem.errors import NotFound
from mainstem.http.asgi import HeaderList, Receive, Scope, Send
from mainstem.http.requests import collect_headers, request_origin
from mainstem.http.responses import NO_STORE, respond, respond_head
from mainstem.server.addresses import is_loopback
from mainstem.server.endpoints.static_files import MEDIA_TYPES, File, StaticFiles, load_files, make_file, require_read
from mainstem.server.settings import Settings

PATH: Final = b"/console"
FRONT_PATH: Final = b"/"
INDEX: Final = "index.html"
CONFIG: Final = "config.json"
DOCUMENTATION: Final = "https://mainstem.github.io/mainstem/"
CONTENT_SECURITY_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        # Browsers that know them refuse every way to turn text into markup or code.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
).encode()
PAGE_HEADERS: Final[HeaderList] = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
REVALIDATE: Final = (b"cache-control", b"no-cache")
"""Browsers keep the files, and ask each time whether they are still those of the server, so that none is outdated."""


def choose_console(settings: Settings, address: str | None = None) -> bool:
    """Return whether `mainstem serve` serves the console; `address` is that of an inherited socket.

    Without tokens, everybody who can open the console of a public address could read and delete everything with it.
    """
    if settings.console is not None:
        return settings.console == "on"
    return settings.authenticates or settings.unix_socket is not None or is_loopback(address or settings.host)


def is_page(scope: Scope, path: bytes) -> bool:
    """Return whether a request is for one of the pages, which need no token."""
    if path == PATH or path.startswith(PATH + b"/"):
        return True
    return path == FRONT_PATH and scope["method"] in ("GET", "HEAD") and _prefers_html(scope)


class Console:
    """Serves the files of the package, each from memory. `head` returns the highest committed id of the log."""

    def __init__(self, settings: Settings, head: Callable[[], int], *, enabled: bool) -> None:
        self._settings = settings
        self._head = head
        self._enabled = enabled
        self._files = _load_files(settings) if enabled else {}
        self._static = StaticFiles(self._files, "the console has no such file")

    async def redirect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the slash, which relative URLs in the pages need. A proxy may serve this server under a path that only
        the proxy knows, so the target is relative too."""
        self._check(scope)
        await respond(send, 307, [*PAGE_HEADERS, NO_STORE, (b"location", b"console/")])

    async def serve_file(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._check(scope)
        name = scope["mainstem.subpath"].decode("latin-1") or INDEX
        await self._static.respond(name, scope, send, [*PAGE_HEADERS, REVALIDATE])

    async def serve_front_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reply to a browser with a page that says what this is. Other clients get 404: nothing is served at `/`."""
        if not self._enabled or not _prefers_html(scope):
            raise self._nothing()
        headers = collect_headers(scope["headers"])
        url = request_origin(scope, headers) + scope.get("root_path", "")
        body = self._write_front_page(url).encode()
        reply = [*PAGE_HEADERS, NO_STORE, (b"vary", b"accept"), (b"content-type", MEDIA_TYPES["html"])]
        if scope["method"] == "HEAD":
            await respond_head(send, reply)
        else:
            await respond(send, 200, reply, body)

    def _check(self, scope: Scope) -> None:
        if not self._enabled:
            raise self._nothing()
        require_read(scope)

    def _nothing(self) -> NotFound:
        return NotFound(f"nothing is served at this path; streams are under {self._settings.stream_prefix}/")

    def _write_front_page(self, url: str) -> str:
        template = self._files["front.html"].body.decode()
        token = ' -H "Authorization: Bearer $TOKEN"' if self._settings.authenticates else ""
        json = """-H 'Content-Type: application/json' -d '[{"text": "hello"}]'"""
        stream = shlex.quote(f"{url}{self._settings.stream_prefix}/hello")
        values = {
            "version": __version__,
            "head": str(self._head()),
            "create": f"curl -i{token} -X PUT {stream} {json}",
            "read": f"curl{token} {stream}",
            "documentation": DOCUMENTATION,
        }
        for name, value in values.items():
            template = template.replace(f"[[{name}]]", escape(value))
        return template


def _prefers_html(scope: Scope) -> bool:
    """Return whether the client names HTML, as browsers do when they open a page; `*/*` does not count."""
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in scope["headers"])


def _load_files(settings: Settings) -> dict[str, File]:
    """Return every file of the console by its path, and one with what the pages must know about the server."""
    config = {
        "version": __version__,
        "stream_prefix": settings.stream_prefix,
        "authenticates": settings.authenticates,
        "documentation": DOCUMENTATION,
    }
    files = load_files(resources.files("mainstem.console") / "static")
    return files | {CONFIG: make_file(CONFIG, msgspec.json.encode(config))}
