"""Follow a stream over SSE with only the standard library, and reconnect after every disconnect.

    .venv/bin/python examples/tail_sse.py http://127.0.0.1:4437/v1/stream/orders

This prints each piece of data once, in order, and ends when the stream is closed or deleted. To resume, even after a
restart, a reader only has to remember the offset of the last control event.
"""

import json
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import urlopen

RETRY_S = 1.0


def events(url: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the data of each event of one response."""
    with urlopen(url, timeout=90) as response:
        encoded = response.headers.get("stream-sse-data-encoding") == "base64"
        name, lines = "", []
        for line in response:
            field, _, value = line.decode().rstrip("\n").partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                lines.append(value)
            elif not field and lines:
                data = "\n".join(lines)
                yield name, b64decode(data).decode(errors="replace") if encoded and name == "data" else data
                name, lines = "", []


def follow(url: str, offset: str = "-1") -> Iterator[str]:
    """Yield all data from an offset. A server ends each response after about a minute; the stream goes on."""
    while True:
        try:
            for name, data in events(f"{url}?offset={offset}&live=sse"):
                if name == "data":
                    yield data
                elif name == "deleted":
                    return
                elif name == "control":
                    control = json.loads(data)
                    offset = control["streamNextOffset"]
                    if control.get("streamClosed"):
                        return
        except HTTPError:
            raise  # the server refused the request
        except (OSError, HTTPException) as error:
            print(f"disconnected ({error}), resuming at {offset}", file=sys.stderr)
            time.sleep(RETRY_S)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: tail_sse.py URL [OFFSET]")
    for piece in follow(*sys.argv[1:]):
        print(piece, flush=True)
