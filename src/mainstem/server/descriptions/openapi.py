"""Builds the OpenAPI 3.1 description of the HTTP API: of this server, with its prefix, its tokens and its limits."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

import mainstem
from mainstem import errors
from mainstem.errors import MainstemError
from mainstem.http.responses import PREFLIGHT_HEADERS
from mainstem.server.auth.credentials import COOKIE_NAME
from mainstem.server.auth.gate import HEALTH_PATHS
from mainstem.server.descriptions import bodies, headers
from mainstem.server.descriptions.model import (
    JSON,
    TEXT,
    Access,
    Body,
    In,
    JsonSchema,
    Operation,
    Parameter,
    Path,
    Reply,
)
from mainstem.server.descriptions.operations import FURTHER_PATHS, PATHS_BY_ROUTE
from mainstem.server.descriptions.stream_operations import CONTROL, SIGNATURE, STREAM
from mainstem.server.origins import READ_ONLY
from mainstem.server.routes import ADMIN_PATHS, ROUTES
from mainstem.server.settings import Settings
from mainstem.signed_urls import PARAMETER
from mainstem.streams.rules.paths import Mount
from mainstem.streams.subscriptions.webhook_sender import WebhookBody, WebhookResult

VERSION: Final = "3.1.0"
PROBLEM: Final = "application/problem+json"
SCHEMAS: Final = "#/components/schemas/{name}"

TAGS: Final = {
    "Streams": "Append-only sequences of bytes or JSON messages: the Durable Streams protocol, and extensions of it.",
    "Subscriptions": "Durable interests in streams, whose workers the server wakes by webhook or pull-wake.",
    "Partitions": "The events of the sync protocol, read over HTTP. `/asyncapi.json` describes the protocol itself.",
    "Sessions": "The open connections of the sync protocol.",
    "Snapshots and pruning": "States in place of history, and erasing that history.",
    "Jobs": "The rounds of pipeline jobs and streaming queries, as they have reported them.",
    "Log": "The whole log as one ordered table.",
    "Server": "Health, the caller, and descriptions of the API.",
    "Fault injection": "Requests that go wrong, for tests of clients. Only with `--test-endpoints`.",
}

_READ_FAULTS: Final = (errors.Unavailable, errors.StoreUnreachable, errors.StoreBusy)
_WRITE_FAULTS: Final = (
    *_READ_FAULTS,
    errors.Overloaded,
    errors.StoreFull,
    errors.StoreFailed,
    errors.ShuttingDown,
)
# OpenAPI expresses these by content types and security schemes, and ignores parameters of their names.
_IMPLIED_HEADERS: Final = frozenset(["Accept", "Authorization", "Content-Type"])


def list_paths(settings: Settings) -> Iterator[Path]:
    """Yield every path that a server with these settings serves. Raises KeyError for a route without a description."""
    mount = Mount(settings.stream_prefix)
    for path in (STREAM, *CONTROL):
        yield path._replace(template=mount.prefix + path.template)
    for route in ROUTES:
        served = PATHS_BY_ROUTE[route.path]
        if served is not None:
            yield served
        yield from FURTHER_PATHS.get(route.path, ())
    if settings.test_endpoints:
        from mainstem.server.descriptions.fault_operations import FAULTS

        yield FAULTS


def build_openapi(settings: Settings, *, guard_hosts: bool) -> dict[str, Any]:
    """Return the document without its `servers`, which depend on where the app is mounted.

    `guard_hosts` says whether the server refuses host names that it does not know.
    """
    paths = list(list_paths(settings))
    schemas = Schemas(settings, [WebhookBody, WebhookResult, *list_contents(paths)])
    builder = _Builder(settings, schemas, guard_hosts=guard_hosts)
    described = {path.template: builder.describe_path(path) for path in paths}
    used = [
        tag for tag in TAGS if any(operation.tag == tag for path in paths for operation in path.operations.values())
    ]
    return {
        "openapi": VERSION,
        "info": {
            "title": "Mainstem",
            "summary": "One durable, ordered commit log: Durable Streams, partitions and the log itself over HTTP.",
            "description": "Every reply may carry the headers in `x-common-headers`. Errors are problem documents"
            " (RFC 9457); decide by their `code`.",
            "version": mainstem.__version__,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": tag, "description": TAGS[tag]} for tag in used],
        "paths": described,
        "webhooks": {"wake": {"post": builder.describe_webhook()}},
        "components": {
            "schemas": schemas.components,
            "headers": {name: _describe_header(name) for name in sorted(headers.RESPONSE_HEADERS)},
            "securitySchemes": _security_schemes(settings),
        },
        "x-common-headers": headers.COMMON_RESPONSE_HEADERS,
    }


def list_contents(paths: Iterable[Path]) -> Iterator[Any]:
    """Yield the type or schema of every body, line and event."""
    yield bodies.Problem
    for path in paths:
        for operation in path.operations.values():
            if operation.body is not None:
                yield from operation.body.content.values()
            for reply in operation.replies:
                yield from (*(reply.content or {}).values(), *(reply.events or {}).values())


class Schemas:
    """The schemas of the structs that the bodies use, and references to them."""

    def __init__(self, settings: Settings, contents: Iterable[Any]) -> None:
        types = list(dict.fromkeys(content for content in contents if not isinstance(content, dict)))
        roots, components = msgspec.json.schema_components(types, ref_template=SCHEMAS)
        self._roots = dict(zip(types, roots, strict=True))
        fields = {type_.__name__: about for type_, about in _fields(settings).items()}
        self.components: dict[str, JsonSchema] = {
            name: bodies.describe_fields(schema, fields[name]) if name in fields else schema
            for name, schema in components.items()
        }
        for type_, schema in bodies.WRITTEN.items():
            self.components[type_.__name__] = schema
            self._roots[type_] = {"$ref": SCHEMAS.format(name=type_.__name__)}

    def refer(self, content: Any) -> JsonSchema:
        return content if isinstance(content, dict) else self._roots[content]


def _fields(settings: Settings) -> dict[type, dict[str, str | JsonSchema]]:
    if not settings.test_endpoints:
        return bodies.FIELDS
    from mainstem.server.descriptions.fault_operations import FAULT_FIELDS

    return bodies.FIELDS | FAULT_FIELDS


def _describe_header(name: str) -> dict[str, Any]:
    description, schema = headers.RESPONSE_HEADERS[name]
    return {"description": description, "schema": schema}


def _refer_to_headers(names: Iterable[str]) -> dict[str, Any]:
    found = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    return {"headers": found} if found else {}


def _security_schemes(settings: Settings) -> dict[str, Any]:
    wake = {"type": "http", "scheme": "bearer", "description": "The token of a claim or of a webhook call."}
    if not settings.authenticates:
        return {"wakeToken": wake}
    token = {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of this server's issuer. Its claims say what the bearer may do.",
    }
    cookie = {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE_NAME,
        "description": "The same token, in the cookie that `PUT /v1/cookie` sets. Over https, its name begins with"
        " `__Host-`, or with `__Secure-` if the app is mounted below a path of its own.",
    }
    signature = {
        "type": "apiKey",
        "in": "query",
        "name": PARAMETER,
        "description": "The signature of a signed URL: a JWT with the claims `read_url` and `exp`.",
    }
    return {"token": token, "cookie": cookie, "signature": signature, "wakeToken": wake}


class _Builder:
    def __init__(self, settings: Settings, schemas: Schemas, *, guard_hosts: bool) -> None:
        self.settings = settings
        self.schemas = schemas
        self.guard_hosts = guard_hosts and not settings.authenticates

    def describe_path(self, path: Path) -> dict[str, Any]:
        where = path.template.encode()
        item = {
            method: self.describe_operation(where, method, operation) for method, operation in path.operations.items()
        }
        below = (self.settings.stream_prefix + "/", "/v1/")
        if path.template.startswith(below):
            item["options"] = self.describe_preflight(where, next(iter(path.operations.values())))
        return item

    def describe_preflight(self, path: bytes, operation: Operation) -> dict[str, Any]:
        """Describe the request that browsers send before a page of another origin may use the path."""
        names = [name.decode().title() for name, _ in PREFLIGHT_HEADERS]
        told = [name for name in names if name in headers.RESPONSE_HEADERS]
        parameters = [parameter for parameter in operation.parameters if parameter.place is In.PATH]
        faults: list[type[MainstemError]] = [errors.HostNotAllowed] if self.guard_hosts else []
        if path.startswith(ADMIN_PATHS) and not self.settings.authenticates:
            faults.append(errors.OriginNotAllowed)
        described = {
            "tags": [operation.tag],
            "summary": "Answer a CORS preflight",
            "responses": {
                "204": {"description": "What pages of other origins may do.", **_refer_to_headers(told)},
                **self._describe_faults(operation, faults, has_body=True),
            },
            **self._security(Access.PUBLIC),
        }
        if parameters:
            described["parameters"] = [_describe_parameter(parameter) for parameter in parameters]
        return described

    def describe_operation(self, path: bytes, method: str, operation: Operation) -> dict[str, Any]:
        described: dict[str, Any] = {
            "operationId": operation.id,
            "tags": [operation.tag],
            "summary": operation.summary,
            **({"description": operation.description} if operation.description else {}),
            **self._security(operation.access, signed=SIGNATURE in operation.parameters),
        }
        parameters = [
            parameter
            for parameter in operation.parameters
            if not (parameter.place is In.HEADER and parameter.name in _IMPLIED_HEADERS)
        ]
        if parameters:
            described["parameters"] = [_describe_parameter(parameter) for parameter in parameters]
        if operation.body is not None:
            described["requestBody"] = self._describe_body(operation.body)
        replies = {str(reply.status): self._describe_reply(reply) for reply in operation.replies}
        faults = self._describe_faults(operation, self.list_faults(path, method, operation), has_body=method != "head")
        described["responses"] = {**replies, **faults}
        return described

    def describe_webhook(self) -> dict[str, Any]:
        signature = "`t=<seconds>,kid=<key>,ed25519=<base64url>`: the signature of the call."
        return {
            "operationId": "receiveWake",
            "tags": ["Subscriptions"],
            "summary": "The call that the server makes to the URL of a webhook subscription",
            "parameters": [
                _describe_parameter(Parameter("Webhook-Signature", signature, TEXT, In.HEADER, required=True))
            ],
            "requestBody": self._describe_body(Body("The wake.", {JSON: WebhookBody})),
            "responses": {
                "2XX": {
                    "description": "The receiver has accepted the wake. `done` also acknowledges all of it.",
                    "content": {JSON: {"schema": self.schemas.refer(WebhookResult)}},
                }
            },
        }

    def _security(self, access: Access, *, signed: bool = False) -> dict[str, Any]:
        if access is Access.WAKE:
            return {"security": [{"wakeToken": []}]}
        if not self.settings.authenticates:
            return {}
        if access is Access.PUBLIC:
            return {"security": []}
        return {"security": [{"token": []}, {"cookie": []}, *([{"signature": []}] if signed else [])]}

    def _describe_body(self, body: Body) -> dict[str, Any]:
        content = {media: self._describe_media(content) for media, content in body.content.items()}
        return {"description": body.description, "required": body.required, "content": content}

    def _describe_media(self, content: Any) -> dict[str, Any]:
        schema = self.schemas.refer(content)
        return {"schema": schema} if schema else {}

    def _describe_reply(self, reply: Reply) -> dict[str, Any]:
        described: dict[str, Any] = {"description": reply.description, **_refer_to_headers(reply.headers)}
        if reply.content:
            described["content"] = {media: self._describe_media(content) for media, content in reply.content.items()}
        if reply.lines is not None:
            described["x-line-schema"] = self.schemas.refer(reply.lines)
        if reply.events:
            described["x-event-schemas"] = {event: self.schemas.refer(data) for event, data in reply.events.items()}
        return described

    def list_faults(self, path: bytes, method: str, operation: Operation) -> list[type[MainstemError]]:
        """Return the errors of an operation: its own, and those that the settings bring."""
        settings, access = self.settings, operation.access
        faults: list[type[MainstemError]] = list(operation.errors)
        if settings.authenticates:
            faults.append(errors.TokenInUrl)
            if access in (Access.ANY, Access.TOKEN, Access.ADMIN, Access.METRICS):
                faults += [errors.TwoCredentials, errors.BadQuery, errors.Unauthorized, errors.SignatureInvalid]
                faults.append(errors.ForgedRequest)
            if access in (Access.TOKEN, Access.ADMIN, Access.METRICS):
                faults.append(errors.Forbidden)
        elif method.upper() not in READ_ONLY or path.startswith(ADMIN_PATHS):
            faults.append(errors.OriginNotAllowed)
        if self.guard_hosts:
            faults.append(errors.HostNotAllowed)
        if settings.max_requests_per_second and path not in HEALTH_PATHS:
            faults.append(errors.RateLimited)
        faults += _WRITE_FAULTS if operation.writes else _READ_FAULTS
        return list(dict.fromkeys(faults))

    def _describe_faults(
        self, operation: Operation, faults: Iterable[type[MainstemError]], *, has_body: bool
    ) -> dict[str, Any]:
        by_status: dict[int, list[type[MainstemError]]] = {}
        for fault in faults:
            by_status.setdefault(fault.status, []).append(fault)
        described = {
            str(status): self._describe_fault(operation, by_status[status], has_body) for status in sorted(by_status)
        }
        if has_body:
            other = {"$ref": SCHEMAS.format(name="Problem")}
            described["default"] = {
                "description": "The request is not valid HTTP, took too long, or met a fault of the server.",
                "content": {PROBLEM: {"schema": other}},
            }
        return described

    def _describe_fault(
        self, operation: Operation, faults: list[type[MainstemError]], has_body: bool
    ) -> dict[str, Any]:
        names = [name for fault in faults for name in headers.ERROR_HEADERS.get(fault, ())]
        if errors.NotFound in faults or errors.StreamNotFound in faults:
            names += operation.error_headers
        if any(fault.retryable for fault in faults):
            names.append("Retry-After")
        lines = [
            f"- `{fault.code}`: {fault.title.rstrip('.')}." + (f" {fault.hint}" if fault.hint else "")
            for fault in faults
        ]
        described: dict[str, Any] = {"description": "\n".join(lines), **_refer_to_headers(dict.fromkeys(names))}
        if has_body:
            codes = {"properties": {"code": {"enum": [fault.code for fault in faults]}}}
            schema = {"allOf": [{"$ref": SCHEMAS.format(name="Problem")}, codes]}
            described["content"] = {PROBLEM: {"schema": schema}}
        return described


def _describe_parameter(parameter: Parameter) -> dict[str, Any]:
    schema = {"type": "array", "items": parameter.schema} if parameter.repeats else parameter.schema
    described = {
        "name": parameter.name,
        "in": parameter.place.value,
        "description": parameter.description,
        "schema": schema,
    }
    return described | {"required": True} if parameter.required else described
