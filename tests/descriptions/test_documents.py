"""The documents themselves: valid, complete, public, cacheable, and true to the server's settings."""

import json
import re
from pathlib import Path

import httpx2
import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from openapi_spec_validator import validate

from mainstem import __version__
from mainstem.errors import MainstemError, SubscriptionError, SyncError
from mainstem.http.headers import HEADERS, Api
from mainstem.server.app import create_app
from mainstem.server.descriptions import headers
from mainstem.server.descriptions.asyncapi import build_asyncapi
from mainstem.server.descriptions.model import In
from mainstem.server.descriptions.openapi import build_openapi, list_paths
from mainstem.server.descriptions.operations import PATHS_BY_ROUTE
from mainstem.server.descriptions.sync_messages import FROM_CLIENT, SYNC_ERRORS
from mainstem.server.routes import ROUTES, SYNC, SYNC_CORE
from mainstem.server.settings import Settings
from mainstem.sync.protocol.messages import PAYLOADS
from tests.support.issuers import write_secret
from tests.support.node_packages import assert_pinned, install

HERE = Path(__file__).parent
DOCUMENTS = ("/openapi.json", "/asyncapi.json")
EVERYTHING = Settings(test_endpoints=True, max_requests_per_second=10)


@pytest.fixture(scope="module")
def operations():
    return [operation for path in list_paths(EVERYTHING) for operation in path.operations.values()]


# Valid


@pytest.mark.parametrize("values", [{}, {"stream_prefix": "/streams"}, {"test_endpoints": True}, {"jwks": "keys.json"}])
def test_the_openapi_document_is_valid(values):
    document = build_openapi(Settings(**values), guard_hosts=True)
    validate(json.loads(json.dumps(document)))


def test_operation_ids_are_unique(operations):
    ids = [operation.id for operation in operations]
    assert len(set(ids)) == len(ids)


def test_every_schema_of_both_documents_is_valid():
    for document in (build_openapi(EVERYTHING, guard_hosts=True), build_asyncapi(Settings(), "")):
        for schema in document["components"]["schemas"].values():
            Draft202012Validator.check_schema(schema)


def test_every_reference_leads_somewhere():
    for document in (build_openapi(EVERYTHING, guard_hosts=True), build_asyncapi(Settings(), "/log")):
        references = re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document))
        assert references
        for reference in references:
            found = document
            for part in reference.split("/"):
                found = found[part]


@pytest.mark.slow
def test_the_asyncapi_document_is_valid():
    assert_pinned(HERE)
    install(HERE)
    schema = json.loads((HERE / "node_modules/@asyncapi/specs/schemas/3.0.0.json").read_text())
    document = json.loads(json.dumps(build_asyncapi(Settings(), "")))
    assert [error.message for error in Draft7Validator(schema).iter_errors(document)] == []


def test_the_asyncapi_document_refers_to_its_own_channels():
    document = build_asyncapi(Settings(), "")
    addresses = {channel["address"].encode() for channel in document["channels"].values()}
    assert addresses == {SYNC, SYNC_CORE}
    for operation in document["operations"].values():
        assert operation["action"] in ("send", "receive")
        assert operation["channel"]["$ref"].startswith("#/channels/")
        for message in operation["messages"]:
            assert message["$ref"].startswith(operation["channel"]["$ref"] + "/messages/")


# Complete


def test_every_route_is_described_and_nothing_else():
    """Routes without a path of their own answer 404, belong to --test-endpoints, or are files for browsers."""
    assert set(PATHS_BY_ROUTE) == {route.path for route in ROUTES}
    for route, path in PATHS_BY_ROUTE.items():
        if path is None:
            assert route in (b"/v1/log/", b"/_test/", b"/console", b"/console/", b"/client/")
        else:
            assert path.template.partition("{")[0].encode() == route


def test_a_route_serves_no_method_that_is_not_described():
    for route in ROUTES:
        path = PATHS_BY_ROUTE[route.path]
        if route.methods is not None and path is not None:
            assert {method.upper() for method in path.operations} == set(route.methods)


def test_every_error_that_a_client_can_meet_is_described(operations):
    """The others are errors of HTTP itself or of the disk (`default` stands for them), or never leave the process."""
    described = {fault for operation in operations for fault in operation.errors}
    everywhere = (
        {"unavailable", "overloaded", "store_full", "store_failed", "store_unreachable", "store_busy"}
        | {"shutting_down", "token_in_url", "unauthorized", "forbidden", "rate_limited", "origin_not_allowed"}
        | {"host_not_allowed", "signature_invalid", "two_credentials", "csrf"}
    )
    of_http = {"method_not_allowed", "request_timeout", "expectation_failed", "headers_too_large", "internal_error"}
    codes = {fault.code for fault in described} | everywhere | of_http | {"store_damaged"}
    assert {error.code for error in list_errors(MainstemError)} - INTERNAL_CODES - codes == set()
    assert not INTERNAL_CODES & codes


INTERNAL_CODES = {
    "conflict",
    "invalid_settings",
    "store_locked",
    "store_unusable",
    "store_corrupt",
    "store_too_new",
    "backup_failed",
    "backup_target_full",
    "repair_failed",
    "pipeline_failed",
    "spark_missing",
    "java_missing",
    "job_failed",
    "reducer_failed",
    "invalid_policy",
    "invalid_pipeline_file",
    "pipeline_locked",
    "invalid_option",
    "server_unreachable",
    "request_refused",
    "history_lost",
    "other_log",
    "invalid_row",
    "stage_lost",
    "storage_failed",
    "job_running",
    "location_not_writable",
    "malformed_message",
    "version_mismatch",
}
"""Of starting up, of commands, of the pipeline and of clients; `conflict` is the parent of others."""


def list_errors(parent):
    yield parent
    for child in parent.__subclasses__():
        if child.__module__ == MainstemError.__module__ and not issubclass(child, SyncError):
            yield from (error for error in list_errors(child) if error is not SubscriptionError)


def test_every_header_of_the_table_is_described_in_its_direction(operations):
    requested = {p.name for operation in operations for p in operation.parameters if p.place is In.HEADER}
    requested |= {parameter.name for parameter in headers.COMMON_REQUEST_HEADERS}
    replied = set(headers.RESPONSE_HEADERS) | set(headers.COMMON_RESPONSE_HEADERS)
    for header in HEADERS:
        if header.cors_request or header.single:
            assert header.name in requested | {"Content-Length"}
        if header.exposed is not Api.NONE or not header.cors_request | header.single:
            assert header.name in replied


def test_every_described_header_of_our_own_is_in_the_table(operations):
    """Standard headers without a rule of their own need no row; ours do, for CORS and against repetition."""
    table = {header.name for header in HEADERS}
    ours = ("Stream-", "Producer-", "Log-", "Snapshot-", "Partition-")
    requested = {p.name for operation in operations for p in operation.parameters if p.place is In.HEADER}
    assert {name for name in requested | set(headers.RESPONSE_HEADERS) if name.startswith(ours)} <= table
    proxied = {"X-Forwarded-Proto", "X-Forwarded-Host"}
    assert requested - {"Accept"} - proxied <= table


def test_every_reply_header_is_used_and_every_used_one_is_described(operations):
    preflight = {"Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Max-Age", "Allow"}
    used = {name for operation in operations for reply in operation.replies for name in reply.headers}
    used |= {name for operation in operations for name in operation.error_headers}
    used |= {name for names in headers.ERROR_HEADERS.values() for name in names}
    assert used | preflight | {"Retry-After"} == set(headers.RESPONSE_HEADERS)


def test_every_message_that_the_server_decodes_is_described():
    assert {type_: decoder.type for type_, decoder in PAYLOADS.items()} == {
        type_: message.payload for type_, message in FROM_CLIENT.items()
    }


def test_every_error_of_the_sync_protocol_is_described():
    found: set[type[SyncError]] = {SyncError, *SyncError.__subclasses__()}
    assert {error.code for error in found} == {error.code for error in SYNC_ERRORS}


# Served


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_public_and_cacheable(server, client, path):
    reply = client.get(path, headers={"accept-encoding": "identity", "origin": "https://elsewhere.example"})
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"].startswith("public")
    assert reply.headers["access-control-allow-origin"] == "*"
    assert reply.json()["info"]["version"] == __version__
    again = client.get(path, headers={"if-none-match": reply.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", reply.headers["etag"])
    assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize("encoding", ["zstd", "br", "gzip", "deflate"])
def test_a_document_is_compressed_for_clients_that_accept_it(client, encoding):
    reply = client.get("/openapi.json", headers={"accept-encoding": encoding})
    assert reply.headers["content-encoding"] == encoding
    assert int(reply.headers["content-length"]) < len(reply.content) / 5
    assert reply.json() == client.get("/openapi.json", headers={"accept-encoding": "identity"}).json()


def test_a_server_with_tokens_shows_its_documents_to_everybody_and_names_the_scheme(start_thread, connect_to, tmp_path):
    write_secret(tmp_path / "secret")
    client = connect_to(start_thread(jwt_secret_file=str(tmp_path / "secret")))
    document = client.get("/openapi.json").json()
    assert client.get("/asyncapi.json").status_code == 200
    assert client.get("/v1/streams").status_code == 401
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert document["paths"]["/v1/streams"]["get"]["security"] == [{"token": []}, {"cookie": []}]
    signed = document["paths"]["/v1/stream/{path}"]
    assert {"signature": []} in signed["get"]["security"]
    assert {"signature": []} not in signed["put"]["security"]
    assert "401" in document["paths"]["/v1/streams"]["get"]["responses"]
    assert document["paths"]["/openapi.json"]["get"]["security"] == []
    assert document["paths"]["/healthz"]["get"]["security"] == []


def test_a_server_without_tokens_describes_none(client):
    document = client.get("/openapi.json").json()
    assert set(document["components"]["securitySchemes"]) == {"wakeToken"}
    assert "401" not in document["paths"]["/v1/streams"]["get"]["responses"]
    assert "/_test/inject-error" not in document["paths"]


def test_another_stream_prefix_is_in_the_paths(start_thread, connect_to):
    document = connect_to(start_thread(stream_prefix="/v1/streams")).get("/openapi.json").json()
    assert "/v1/streams/{path}" in document["paths"]
    assert "/v1/streams/__ds/jwks.json" in document["paths"]
    assert not [path for path in document["paths"] if path.startswith("/v1/stream/")]


def test_the_test_endpoints_are_described_where_they_are_served(start_server):
    server = start_server("--test-endpoints", "--store", "memory")
    document = httpx2.get(f"{server.url}/openapi.json", trust_env=False).json()
    assert set(document["paths"]["/_test/inject-error"]) == {"post", "delete"}


@pytest.mark.parametrize("root", ["", "/log"])
async def test_a_mounted_app_names_the_path_at_which_it_is_mounted(root):
    app = create_app(store="memory")
    transport = httpx2.ASGITransport(app, root_path=root)
    async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        openapi = (await client.get(f"{root}/openapi.json")).json()
        asyncapi = (await client.get(f"{root}/asyncapi.json")).json()
    assert openapi["servers"] == [{"url": root or "/"}]
    assert asyncapi["channels"]["sync"]["address"] == f"{root}/v1/sync"
