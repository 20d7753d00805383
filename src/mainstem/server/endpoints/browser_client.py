"""`/client/mainstem.js`: the JavaScript client of the sync protocol, for pages without any toolchain.

The path redirects to one with the version and a hash in it, whose content never changes. So a page always gets the
client that fits the server, and browsers fetch it once.
"""

import hashlib
from importlib import resources
from typing import Final

from mainstem import __version__
from mainstem.http.asgi import HeaderList, Receive, Scope, Send
from mainstem.http.responses import respond
from mainstem.server.endpoints.static_files import StaticFiles, load_files, require_read

PATH: Final = b"/client/"
ENTRY: Final = "mainstem.js"
# The files are public and hold no data, so pages of every origin may import them.
HEADERS: Final[HeaderList] = [
    (b"access-control-allow-origin", b"*"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"x-content-type-options", b"nosniff"),
]
IMMUTABLE: Final = (b"cache-control", b"public, max-age=31536000, immutable")
REVALIDATE: Final = (b"cache-control", b"no-cache")


def is_client_file(path: bytes) -> bool:
    """Return whether a path is that of the client, which needs no token."""
    return path.startswith(PATH)


class BrowserClient:
    def __init__(self) -> None:
        files = load_files(resources.files("mainstem.browser_client"))
        digest = hashlib.sha256(b"".join(file.body for _, file in sorted(files.items()))).hexdigest()
        self.folder = f"{__version__}-{digest[:12]}"
        """The part of the path that changes with the content."""
        self._files = StaticFiles(files, f"this server has no such file of the client; import /client/{ENTRY}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        require_read(scope)
        name = scope["mainstem.subpath"].decode("latin-1")
        if name == ENTRY:
            # Relative, because a proxy may serve this server under a path that only the proxy knows.
            await respond(send, 307, [*HEADERS, REVALIDATE, (b"location", f"{self.folder}/{ENTRY}".encode())])
            return
        folder, _, file = name.partition("/")
        await self._files.respond(file if folder == self.folder else "", scope, send, [*HEADERS, IMMUTABLE])
