"""Server-sent events of endpoints that the streams client does not know, across reconnects."""

import random
import time
from collections.abc import Callable, Iterator, Sequence

import httpx2

from mainstem import limits
from mainstem.cli.addresses import Address
from mainstem.cli.clients import make_retries
from mainstem.client import transports
from mainstem.client.core.effects import NoResponse
from mainstem.client.core.errors import ClientError, ConnectionFailed, error_of
from mainstem.client.core.sse import Event, EventParser

Query = Sequence[tuple[str, str]]


def read_events(address: Address, path: str, query: Callable[[], Query]) -> Iterator[Event]:
    """Yield events as they arrive. `query` is called before each connection, to say where to continue.

    If the first connection fails, this raises an error. After that it reconnects until the server is back.
    """
    retries = make_retries(address, None)
    headers = {"accept": "text/event-stream", "accept-encoding": "identity"}
    if address.token is not None:
        headers["authorization"] = f"Bearer {address.token}"
    reached, failures = False, 0
    with httpx2.Client(**transports.client_options(address.url, limits.CLIENT_TIMEOUT_S, True)) as http:
        while True:
            try:
                for event in _read_connection(http, address.url + path, query(), headers):
                    reached, failures = True, 0
                    yield event
                failures = 0 if reached else 1
            except transports.HTTP_ERRORS as error:
                failure = transports.translate_error(error)
                if not isinstance(failure, NoResponse):
                    raise failure from None
                if not reached:
                    raise ConnectionFailed(f"GET {path} at {address.url}: {failure.reason}") from None
                failures += 1
            except ClientError as error:
                if not (reached and error.retryable):
                    raise
                failures += 1
            if failures:
                time.sleep(retries.delay(failures, random.random))


def _read_connection(http: httpx2.Client, url: str, query: Query, headers: dict[str, str]) -> Iterator[Event]:
    timeout = httpx2.Timeout(limits.CLIENT_TIMEOUT_S, read=limits.CLIENT_SSE_SILENCE_S)
    with http.stream("GET", url, params=list(query), headers=headers, timeout=timeout) as response:
        if not response.is_success:
            raise error_of(f"GET {response.url.path}", response.status_code, dict(response.headers), response.read())
        parser = EventParser()
        for piece in response.iter_raw():
            yield from parser.feed(piece)
