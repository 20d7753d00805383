"""Follow a stream with the client, and remember the offset across restarts of this program.

    .venv/bin/python examples/follow_stream.py http://127.0.0.1:4437 orders orders.offset

This prints each message of a JSON stream once, and ends when the stream is closed. The client reconnects automatically
if the connection breaks; the file is for restarts of the program itself.
"""

import json
import sys
from pathlib import Path

from mainstem.client import Streams


def follow(url: str, path: str, bookmark: Path) -> None:
    offset = bookmark.read_text() if bookmark.exists() else "-1"
    with Streams(url) as streams:
        for batch in streams.follow(path, offset):
            for message in batch.messages:
                print(json.dumps(message), flush=True)
            bookmark.write_text(batch.offset)  # after the work: a crash may repeat a batch, but loses none


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: follow_stream.py URL STREAM BOOKMARK")
    follow(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
