"""Addresses of servers: what is wrong with one, seen from its form or from what answers there."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from mainstem.client.core.errors import BadArgument, InvalidResponse, ResponseError
from mainstem.streams.rules.paths import PREFIX, PREFIX_FORM

ENDPOINT = re.compile(r"/v1/(stream|streams|stream-set|subscriptions|sync|log)(/.*)?$")
"""The end of a URL that names an endpoint of a server in place of the server."""


def check_prefix(prefix: str) -> str:
    """Return the prefix, or raise `BadArgument`. Other servers may serve streams anywhere; empty means their root."""
    if prefix and not PREFIX_FORM.fullmatch(prefix):
        raise BadArgument(f"prefix is {prefix!r}; it must look like /v1/stream, without a slash at the end")
    return prefix


def check_url(url: str, prefix: str) -> str:
    """Return the URL without a slash at its end, or raise `BadArgument` if it cannot be the address of a server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise BadArgument(f"{url!r} is not the address of a server: write it like http://127.0.0.1:4437")
    root = f"{parts.scheme}://{parts.netloc}"
    path = parts.path.rstrip("/")
    found = ENDPOINT.search(path) if prefix == PREFIX else None
    if prefix and found is None:  # without a prefix, any path may be where another server has its streams
        found = re.search(rf"{re.escape(prefix)}(/.*)?$", path)
    if found is not None:
        raise BadArgument(
            f"{url!r} names an endpoint of a server: give {root + path[: found.start()]} as the URL,"
            " and the path of a stream, such as chat/1, to each call"
        )
    return root + path


def is_web_page(headers: Mapping[str, str]) -> bool:
    """Return whether a reply is an HTML page that is not the data of a stream."""
    return headers.get("content-type", "").lower().startswith("text/html") and "stream-next-offset" not in headers


def report_web_page(call: str, url: str, status: int) -> InvalidResponse:
    """Return the error for a successful reply that is a web page."""
    return InvalidResponse(
        f"{call}: {url} answered {status} with a web page, so it is not a Durable Streams server", hint=advise(url)
    )


def name_wrong_server(error: ResponseError, call: str, url: str) -> None:
    """Say in the error of a refused request that the URL may be wrong, if the reply looks like that."""
    path = urlsplit(url).path
    if is_web_page(error.headers) and error.status in (400, 404, 405, 501):
        error.say(
            f"{call}: {url} answered {error.status} with a web page, so it is not a Durable Streams server", advise(url)
        )
    elif error.status in (404, 405) and _is_plain_json(error):
        error.say(f"{call}: {url} answered {error.status} and does not know this request", advise(url))
    elif error.facts.get("code") == "not_found":
        error.say(f"{call} at {url}: {error.facts.get('detail') or 'the server serves nothing here'}", advise(url))
    elif error.status == 404 and path:
        error.say(error.detail, f"{error.hint} The path {path} in the URL {url} must be where the server is mounted.")


def advise(url: str) -> str:
    """Return how to find the right address."""
    path = urlsplit(url).path
    mounted = f", and leave out {path} unless the server is mounted there" if path else ""
    return f"Check the host and port of the URL{mounted}; pass prefix= if the server serves streams elsewhere."


def _is_plain_json(error: ResponseError) -> bool:
    """Web frameworks answer so where they have no route. Durable Streams servers send a problem document, or text."""
    is_json = error.headers.get("content-type", "").lower().startswith("application/json")
    return is_json and not {"code", "error"} & error.facts.keys()
