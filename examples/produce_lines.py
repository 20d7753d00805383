"""Append the lines of standard input with a producer: in batches, in order, each line once.

    seq 1 1000000 | .venv/bin/python examples/produce_lines.py http://127.0.0.1:4437 numbers

If lines could not be stored, this reports them on standard error, and exits with 1.
"""

import sys

from mainstem.client import Failed, IdempotentProducer, Streams


def produce(url: str, path: str) -> int:
    failures: list[Failed] = []
    with Streams(url) as streams:
        streams.create(path, "text/plain")
        with IdempotentProducer(streams, path, on_error=failures.append) as producer:
            for line in sys.stdin.buffer:
                producer.append(line)
    for failed in failures:
        print(f"{len(failed.messages)} lines were not stored: {failed.error}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: produce_lines.py URL STREAM < LINES")
    sys.exit(produce(sys.argv[1], sys.argv[2]))
