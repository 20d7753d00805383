"""Server-sent events, read one by one from a response that is still open."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx2


class Event(NamedTuple):
    name: str
    data: str
    id: str | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def parse_events(lines: Iterator[str]) -> Iterator[Event]:
    """Yield the events without comments. Fail if the response ends within an event."""
    name, data, last_id = "", [], None
    for line in lines:
        field, _, value = line.partition(":")
        if line:
            if field == "event":
                name = value.removeprefix(" ")
            elif field == "data":
                data.append(value.removeprefix(" "))
            elif field == "id":
                last_id = value.removeprefix(" ")
        elif name:
            yield Event(name, "\n".join(data), last_id)
            name, data, last_id = "", [], None
    assert not name, f"the response ended within the event {name!r}"


@contextmanager
def open_events(client: httpx2.Client, url: str, **options: Any) -> Iterator[Iterator[Event]]:
    with client.stream("GET", url, **options) as response:
        if response.status_code != 200:
            response.read()
        assert response.status_code == 200, response.text
        yield parse_events(_lines(response))


def _lines(response: httpx2.Response) -> Iterator[str]:
    """Split at LF only: the client's own splitter would also split at characters that JSON may contain."""
    rest = ""
    for text in response.iter_text():
        *lines, rest = (rest + text).split("\n")
        yield from lines
