"""Requests and replies as a client sees them, and whether a description has all of them."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import httpx2
from jsonschema import Draft202012Validator

from tests.support.event_streams import Event, parse_events

Json = dict[str, Any]

PROBLEM = "application/problem+json"
# Headers of every HTTP client and of every reply; what the framing needs is not part of an API.
CLIENT_HEADERS = {
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "origin",
    "sec-fetch-site",
    "transfer-encoding",
    "user-agent",
}
UNDESCRIBED_STATUSES = frozenset([405, 408, 417, 431, 500])
"""Of methods that the path does not have, and of requests that are not valid HTTP: `default` stands for them."""


class Exchange(NamedTuple):
    method: str
    path: str
    query: list[tuple[str, str]]
    sent: httpx2.Headers
    request_body: bytes
    status: int
    received: httpx2.Headers
    body: bytes
    events: list[Event]


class Use(NamedTuple):
    """A status of an operation, or one of its parameters or reply headers: what a run should have used."""

    method: str
    path: str
    what: str


class Recorder:
    """An HTTP client that remembers what it sent and received."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        self.exchanges: list[Exchange] = []

    def request(self, method: str, url: str, expected: int | None = None, **options: Any) -> httpx2.Response:
        reply = self.client.request(method, url, **options)
        if expected is not None:
            assert reply.status_code == expected, f"{method} {url}: {reply.status_code} {reply.text}"
        self._remember(reply, reply.content, [])
        return reply

    def follow(self, url: str, events: int, **options: Any) -> list[Event]:
        """Read the first events of an event stream."""
        with self.client.stream("GET", url, **options) as reply:
            assert reply.status_code == 200, reply.read()
            found: list[Event] = []
            for event in parse_events(reply.iter_lines()):
                found.append(event)
                if len(found) == events:
                    break
            self._remember(reply, b"", found)
        return found

    def _remember(self, reply: httpx2.Response, body: bytes, events: list[Event]) -> None:
        url = urlsplit(str(reply.request.url))
        self.exchanges.append(
            Exchange(
                reply.request.method,
                url.path,
                parse_qsl(url.query, keep_blank_values=True),
                reply.request.headers,
                reply.request.content,
                reply.status_code,
                reply.headers,
                body,
                events,
            )
        )


class Description:
    """An OpenAPI document, as what an exchange is compared with."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self.common = {name.lower() for name in document["x-common-headers"]}
        self.used: set[Use] = set()
        self._patterns = [
            (_pattern(template), template) for template in sorted(document["paths"], key=len, reverse=True)
        ]

    def validate(self, value: Any, schema: Json) -> list[str]:
        whole = {**schema, "components": self.document["components"]}
        return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(whole).iter_errors(value)]

    def find(self, method: str, path: str) -> tuple[str, Json] | None:
        for pattern, template in self._patterns:
            if pattern.fullmatch(path) and method.lower() in self.document["paths"][template]:
                return template, self.document["paths"][template][method.lower()]
        return None

    def knows(self, path: str) -> bool:
        return any(pattern.fullmatch(path) for pattern, _ in self._patterns)

    def operations(self) -> Iterator[tuple[str, str, Json]]:
        for template, item in self.document["paths"].items():
            for method, operation in item.items():
                yield method.upper(), template, operation

    def list_uses(self) -> set[Use]:
        """What a run should have used: every status, and every parameter and reply header of what succeeds."""
        uses: set[Use] = set()
        for method, template, operation in self.operations():
            uses |= {Use(method, template, status) for status in operation["responses"] if status != "default"}
            uses |= {Use(method, template, _name(parameter)) for parameter in operation.get("parameters", ())}
            for status, reply in operation["responses"].items():
                if status < "400":
                    uses |= {Use(method, template, f"{status} {name}") for name in reply.get("headers", {})}
        return uses

    def check(self, exchange: Exchange) -> list[str]:
        """Return what of an exchange is not described as it was."""
        found = self.find(exchange.method, exchange.path)
        if found is None:
            return [] if exchange.status in (404, 405) else ["the operation is not described"]
        template, operation = found
        status = str(exchange.status)
        if status not in operation["responses"]:
            if exchange.status in UNDESCRIBED_STATUSES and "default" in operation["responses"]:
                return []
            return [f"status {status} is not described: {exchange.body[:200]!r}"]
        self.used.add(Use(exchange.method, template, status))
        faults = list(self._check_reply(exchange, template, operation["responses"][status]))
        if exchange.status < 400:
            faults += self._check_request(exchange, template, operation)
        return [f"{exchange.method} {exchange.path} {status}: {fault}" for fault in faults]

    def _check_request(self, exchange: Exchange, template: str, operation: Json) -> Iterator[str]:
        parameters = {_name(parameter): parameter for parameter in operation.get("parameters", ())}
        self.used |= {Use(exchange.method, template, name) for name in parameters if name.startswith("path ")}
        sent = [(f"query {name}", value) for name, value in exchange.query]
        sent += [(f"header {name}", value) for name, value in exchange.sent.items()]
        for name, value in sent:
            if name not in parameters:
                if name.removeprefix("header ") not in CLIENT_HEADERS:
                    yield f"the parameter {name} is not described"
                continue
            self.used.add(Use(exchange.method, template, name))
            schema = parameters[name]["schema"]
            schema = schema["items"] if schema.get("type") == "array" else schema
            wanted = int(value) if schema.get("type") == "integer" else value
            yield from (f"{name}: {fault}" for fault in self.validate(wanted, schema))
        if exchange.request_body:
            if "requestBody" not in operation:
                yield "a body is not described"
                return
            media = exchange.sent.get("content-type", "*/*")
            content = operation["requestBody"]["content"]
            if "schema" in content.get(media, {}):
                yield from self.validate(json.loads(exchange.request_body), content[media]["schema"])
            elif media not in content and "*/*" not in content:
                yield f"a body of type {media} is not described"

    def _check_reply(self, exchange: Exchange, template: str, reply: Json) -> Iterator[str]:
        described = {name.lower(): name for name in reply.get("headers", {})}
        for name, value in exchange.received.items():
            if name in described:
                self.used.add(Use(exchange.method, template, f"{exchange.status} {described[name]}"))
                header = self.document["components"]["headers"][described[name]]
                wanted = int(value) if header["schema"].get("type") == "integer" else value
                yield from (f"{name}: {fault}" for fault in self.validate(wanted, header["schema"]))
            elif name not in self.common | {"content-type"}:
                yield f"the header {name} is not described"
        content = reply.get("content", {})
        media = exchange.received.get("content-type", "")
        if exchange.events:
            if "text/event-stream" not in content:
                yield "an event stream is not described"
            for event in exchange.events:
                yield from self._check_event(event, reply)
        elif exchange.body:
            if media not in content and "*/*" not in content:
                yield f"a body of type {media} is not described"
            elif media.endswith("json") and media != "application/x-ndjson":
                yield from self.validate(json.loads(exchange.body), content.get(media, {}).get("schema", {}))
            elif media == "application/x-ndjson":
                for line in exchange.body.splitlines():
                    yield from self.validate(json.loads(line), reply["x-line-schema"])

    def _check_event(self, event: Event, reply: Json) -> Iterator[str]:
        schema = reply["x-event-schemas"].get(event.name)
        if schema is None:
            yield f"the event {event.name} is not described"
        elif schema.get("type") != "string":
            yield from self.validate(event.json, schema)
        elif "x-line-schema" in reply:
            for line in event.data.splitlines():
                yield from self.validate(json.loads(line), reply["x-line-schema"])


def _name(parameter: Json) -> str:
    name = parameter["name"]
    return f"{parameter['in']} {name.lower() if parameter['in'] == 'header' else name}"


def _pattern(template: str) -> re.Pattern[str]:
    """A stream's path and a partition's name may hold slashes; ids and numbers may not."""
    escaped = re.sub(r"\\\{(?:id|session)\\\}", "[^/]+", re.escape(template))
    return re.compile(re.sub(r"\\\{(?:path|name)\\\}", ".+", escaped))


def check_all(description: Description, exchanges: Iterable[Exchange]) -> list[str]:
    return [fault for exchange in exchanges for fault in description.check(exchange)]
