"""http-api.md and log-api.md name what the code serves: all of it, and nothing else.

The pages are compared with the tables of `mainstem.server.descriptions`, which tests/descriptions compares with real
traffic; what requests may carry is compared with the source here.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem import errors
from mainstem.errors import SubscriptionError
from mainstem.server.descriptions import headers
from mainstem.server.descriptions.bodies import LOG_COLUMNS, IndexRow, LogRow
from mainstem.server.descriptions.model import In, Operation
from mainstem.server.descriptions.openapi import Schemas, build_openapi, list_contents, list_paths
from mainstem.server.log_api.arrow import arrow_schema
from mainstem.server.log_api.index import INDEXES
from mainstem.server.log_api.selection import COLUMNS
from mainstem.server.routes import SYNC, SYNC_CORE
from mainstem.server.settings import Settings
from mainstem.signed_urls import PARAMETER
from tests.docs.pages import ROOT
from tests.docs.sections import CODE, Section, read_sections
from tests.support.json_schemas import list_fields

SETTINGS = Settings(test_endpoints=True)
PATHS = list(list_paths(SETTINGS))
OPERATIONS = {(method.upper(), path.template): op for path in PATHS for method, op in path.operations.items()}
DOCUMENT = build_openapi(SETTINGS, guard_hosts=True)
SCHEMAS = Schemas(SETTINGS, list_contents(PATHS))

HTTP, LOG = read_sections("http-api.md"), read_sections("log-api.md")
ENDPOINTS = [section for section in (*HTTP, *LOG) if section.endpoints]
SOURCE = ROOT / "src" / "mainstem"


def find(title: str, sections: list[Section] = HTTP) -> Section:
    return next(section for section in sections if section.title == title)


def operations_of(section: Section) -> list[Operation]:
    return [OPERATIONS[endpoint] for endpoint in section.endpoints]


# Endpoints


def test_the_overview_lists_every_path_with_its_methods():
    listed = {}
    for row in find("HTTP API").tables("path")[0].rows:
        for path in CODE.findall(row[0]):
            listed[path] = set(row[1].split(", "))
    served = {path: {method.upper() for method in item} for path, item in DOCUMENT["paths"].items()}
    sockets = {path.decode(): {"WebSocket"} for path in (SYNC, SYNC_CORE)}
    assert listed == served | sockets


def test_every_endpoint_has_one_section():
    counts = Counter(endpoint for section in ENDPOINTS for endpoint in section.endpoints)
    assert counts == Counter(list(OPERATIONS))


@pytest.mark.parametrize("section", ENDPOINTS, ids=lambda section: section.title)
def test_every_endpoint_has_a_summary_and_an_example(section):
    first = section.prose.strip().splitlines()[0]
    assert first.rstrip().endswith((".", ":")) or len(first) > 60
    assert section.examples
    assert any(
        path.partition("{")[0].rstrip("/") in example.replace("$subscription", "/v1/stream/__ds/subscriptions")
        for _, path in section.endpoints
        for example in section.examples
    )


@pytest.mark.parametrize("section", ENDPOINTS, ids=lambda section: section.title)
@pytest.mark.parametrize(("place", "first"), [(In.QUERY, "query parameter"), (In.HEADER, "request header")])
def test_a_section_names_the_parameters_of_its_endpoints(section, place, first):
    parameters = [p.name for operation in operations_of(section) for p in operation.parameters if p.place is place]
    assert sorted(section.names(first)) == sorted(set(parameters))


@pytest.mark.parametrize("section", ENDPOINTS, ids=lambda section: section.title)
def test_a_section_names_the_response_headers_of_its_endpoints(section):
    names = set()
    for operation in operations_of(section):
        names |= {name for reply in operation.replies for name in reply.headers} | set(operation.error_headers)
        names |= {name for error in operation.errors for name in headers.ERROR_HEADERS.get(error, ())}
    assert sorted(section.names("response header")) == sorted(names)


@pytest.mark.parametrize("section", ENDPOINTS, ids=lambda section: section.title)
def test_a_section_names_the_statuses_and_error_codes_of_its_endpoints(section):
    described: dict[str, set[str]] = {
        str(reply.status): set() for operation in operations_of(section) for reply in operation.replies
    }
    for error in {error for operation in operations_of(section) for error in operation.errors}:
        described.setdefault(str(error.status), set()).add(error.code)
    rows = [row for table in section.tables("status") for row in table.rows]
    listed = {status: set(CODE.findall(text)) if status >= "400" else set() for status, text in rows}
    assert listed == described
    assert len(listed) == len(rows)


# Bodies


def fields(content) -> set[str]:
    return set(list_fields(SCHEMAS.refer(content), DOCUMENT))


def contents_of(operation: Operation) -> list:
    """The JSON that an operation replies with, in its body or in its events, as far as it has fields."""
    found = [
        c for reply in operation.replies for c in (*(reply.content or {}).values(), *(reply.events or {}).values())
    ]
    return [content for content in found if fields(content)]


def trim(names: set[str]) -> set[str]:
    """The fields of the items of an array, without the brackets in front."""
    return {name.removeprefix("[].") for name in names}


@pytest.mark.parametrize("section", ENDPOINTS, ids=lambda section: section.title)
def test_a_section_names_the_fields_of_its_request_bodies(section):
    bodies = [
        content for operation in operations_of(section) if operation.body for content in operation.body.content.values()
    ]
    assert set(section.names("field")) == set().union(*map(fields, bodies))


@pytest.mark.parametrize("section", ENDPOINTS, ids=lambda section: section.title)
def test_a_table_of_reply_fields_is_that_of_one_of_the_replies(section):
    replies = [trim(fields(content)) for operation in operations_of(section) for content in contents_of(operation)]
    for table in section.tables("reply field"):
        assert set(table.names()) in replies


def test_every_reply_is_described_field_by_field():
    listed = [set(table.names()) for section in (*HTTP, *LOG) for table in section.tables("reply field")]
    for operation in OPERATIONS.values():
        for content in contents_of(operation):
            assert trim(fields(content)) in listed or operation.id == "rotateSigningKey", operation.id


def test_the_events_of_a_stream_set_are_listed():
    reply = OPERATIONS["GET", "/v1/stream-set"].replies[0]
    assert find("Stream sets").names("event") == list(reply.events or ())


def test_the_webhook_call_is_described():
    body = DOCUMENT["webhooks"]["wake"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    section = find("Webhook calls")
    assert set(section.names("field")) == set(list_fields(body, DOCUMENT))
    assert "Webhook-Signature" in section.prose


# What all endpoints share


def test_the_common_headers_are_those_of_the_tables():
    section = find("Common headers")
    assert section.names("request header") == [parameter.name for parameter in headers.COMMON_REQUEST_HEADERS]
    assert sorted(section.names("response header")) == sorted(headers.COMMON_RESPONSE_HEADERS)


def test_the_common_errors_are_listed_by_status():
    rows = find("Errors").tables("status")[0].rows
    listed = {
        (int(status), code)
        for status, text in rows
        for code in CODE.findall(text)
        if errors.error_class(code).code == code
    }
    common: set[type[errors.MainstemError]] = {
        errors.MainstemError,
        errors.BadRequest,
        errors.TokenInUrl,
        errors.Unauthorized,
        errors.SignatureInvalid,
        errors.TwoCredentials,
        errors.ForgedRequest,
        errors.Forbidden,
        errors.OriginNotAllowed,
        errors.MethodNotAllowed,
        errors.RequestTimeout,
        errors.ExpectationFailed,
        errors.HostNotAllowed,
        errors.RateLimited,
        errors.HeadTooLarge,
        errors.Unavailable,
        *errors.Unavailable.__subclasses__(),
    }
    assert listed == {(error.status, error.code) for error in common}


def test_the_preflight_headers_are_those_of_the_description():
    reply = DOCUMENT["paths"]["/v1/streams"]["options"]["responses"]["204"]
    assert set(find("OPTIONS").names("response header")) == set(reply["headers"])


def test_the_public_codes_of_subscriptions_are_listed_by_status():
    rows = find("Subscriptions").tables("status")[0].rows
    listed = {(int(status), code) for status, text in rows for code in CODE.findall(text) if code.isupper()}
    assert listed == {(error.status, error.public_code) for error in SubscriptionError.__subclasses__()}


# The log


def test_the_columns_of_the_log_are_listed_with_their_types():
    table = find("`GET /v1/log`", LOG).tables("column")[0]
    assert [CODE.findall(row[0])[0] for row in table.rows] == list(COLUMNS) == list(LOG_COLUMNS)
    assert [CODE.findall(row[1])[0] for row in table.rows] == [str(field.type) for field in arrow_schema()]
    assert fields(LogRow) == {*COLUMNS, "data_base64"}


@pytest.mark.parametrize("of", INDEXES)
def test_the_columns_of_an_index_are_listed_with_their_types(of):
    section = find("`GET /v1/log/index`", LOG)
    table = section.tables(f"column of `{of}`")[0]
    listed = [(CODE.findall(name)[0], CODE.findall(type_)[0]) for name, type_, _ in table.rows]
    assert listed == [(column.name, column.type) for column in INDEXES[of].columns]
    assert set(section.names("`of`")) == set(INDEXES)
    assert fields(IndexRow) >= {name for name, _ in listed}


# What requests may carry, by the source


def parse_sources() -> Iterator[tuple[Path, ast.Module]]:
    for package in ("http", "streams", "server"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            if not {"edge", "descriptions"} & set(path.parts):
                yield path, ast.parse(path.read_text())


def constants(node: ast.AST, type_: type) -> list:
    """The constants of an expression that is one, or a tuple of them."""
    inner = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [item.value for item in inner if isinstance(item, ast.Constant) and isinstance(item.value, type_)]


def is_named(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def lookups(tree: ast.Module, type_: type, *names: str) -> Iterator:
    """The constants with which mappings of these names are asked: by index, by `get` or by `in`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            if is_named(node.func.value, *names):
                yield from constants(node.args[0], type_)
        elif isinstance(node, ast.Subscript) and is_named(node.value, *names):
            yield from constants(node.slice, type_)
        elif isinstance(node, ast.Compare):
            if is_named(node.comparators[0], *names) and isinstance(node.left, ast.Constant):
                yield from constants(node.left, type_)
            elif is_named(node.left, "name"):
                yield from constants(node.comparators[0], type_)


def calls(tree: ast.Module, type_: type, *functions: str) -> Iterator:
    """The constants with which these functions are called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_named(node.func, *functions):
            for argument in node.args:
                yield from constants(argument, type_)


def test_the_source_reads_the_request_headers_that_are_described_and_no_others():
    read = set()
    for _, tree in parse_sources():
        read |= set(lookups(tree, bytes, "headers", "found"))
        read |= set(calls(tree, bytes, "text_header", "is_true", "_outermost"))
    framing = {b"content-length", b"expect", b"cache-control", b"vary"}  # the last two are replies'
    framing |= {b"referer", b"user-agent"}  # only the access log reads them
    described = {p.name.lower().encode() for op in OPERATIONS.values() for p in op.parameters if p.place is In.HEADER}
    described |= {parameter.name.lower().encode() for parameter in headers.COMMON_REQUEST_HEADERS}
    traces = {b"traceparent", b"tracestate"}  # OpenTelemetry reads them
    assert read - framing == described - traces


def test_the_source_reads_the_query_parameters_that_are_described_and_no_others():
    read = {PARAMETER}  # the gate reads it
    for path, tree in parse_sources():
        if path.parts[-2] in ("auth",) or path.name in ("settings.py", "run.py", "logs.py"):
            continue
        read |= set(lookups(tree, str, "query", "numbers", "lists"))
        read |= set(calls(tree, str, "check_parameters"))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.AnnAssign)
                and is_named(node.target, "PARAMETERS", "HEAD_PARAMETERS", "CUT_PARAMETERS", "lists")
                and isinstance(node.value, ast.Dict)
            ):
                read |= {name for key in node.value.keys if key for name in constants(key, str)}
    described = {p.name for op in OPERATIONS.values() for p in op.parameters if p.place is In.QUERY}
    assert read == described
