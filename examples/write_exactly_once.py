"""Append lines to a stream exactly once, however often a request is retried.

    seq 1 100 | .venv/bin/python examples/write_exactly_once.py http://127.0.0.1:4437/v1/stream/numbers

Each line carries a producer id, an epoch and the next sequence number. A retry carries the same ones, so the server
recognises it: a lost reply never stores a line twice.
"""

import sys
import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

ATTEMPTS_MAX = 10
RETRY_S = 0.5


def send(request: Request) -> None:
    for attempt in range(ATTEMPTS_MAX):
        try:
            with urlopen(request, timeout=30):
                return
        except HTTPError as error:
            if error.code < 500 or attempt + 1 == ATTEMPTS_MAX:
                raise
        except OSError:
            if attempt + 1 == ATTEMPTS_MAX:
                raise
        time.sleep(RETRY_S)


def write(url: str, lines: list[bytes]) -> None:
    send(Request(url, method="PUT", headers={"content-type": "text/plain"}))
    producer = uuid4().hex  # a producer that continues after a restart keeps its id and uses a higher epoch
    for seq, line in enumerate(lines):
        headers = {
            "content-type": "text/plain",
            "producer-id": producer,
            "producer-epoch": "0",
            "producer-seq": str(seq),
        }
        send(Request(url, data=line, method="POST", headers=headers))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: write_exactly_once.py URL < LINES")
    write(sys.argv[1], sys.stdin.buffer.readlines())
