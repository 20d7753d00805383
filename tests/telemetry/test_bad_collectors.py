"""A collector that is down, slow or broken costs spans, and nothing else."""

import socket
import time

import pytest

from mainstem import limits
from tests.support.waits import eventually
from tests.telemetry.conftest import export_to

TEXT = {"content-type": "text/plain"}
ROOT = "/v1/stream/"
LOST = "the OpenTelemetry collector at {url} did not take "


def export_quickly(url, **more):
    """Let an export fail after a second."""
    return export_to(url, **{"OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_METRICS_EXPORTER": "otlp", **more})


def check_log(server, url):
    """Require one line per kind of export, and nothing of the SDK."""
    lines = [line for line in server.stderr.splitlines() if " WARNING " in line or " ERROR " in line]
    assert lines
    assert all(LOST.format(url=url) in line for line in lines), lines
    assert len(lines) <= 2, lines
    assert "Traceback" not in server.stderr


@pytest.fixture
def nobody():
    """The URL of a port on which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def test_a_server_works_without_its_collector(start_server, connect_to, nobody, path):
    server = start_server(environment=export_quickly(nobody.replace("//", "//user:password@")))
    client = connect_to(server)
    client.put(ROOT + path, headers=TEXT)

    def append():
        assert client.post(ROOT + path, headers=TEXT, content=b"x").status_code == 204
        return LOST.format(url=nobody) in server.stderr

    eventually(append)
    assert eventually(append)
    began_s = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began_s < limits.TELEMETRY_FLUSH_S_MAX + 5
    check_log(server, nobody)
    assert "password" not in server.stderr


@pytest.mark.parametrize("status", [400, 500, 503])
def test_a_collector_may_refuse_everything(start_server, connect_to, own_collector, path, status):
    own_collector.answer = lambda path: status
    server = start_server(environment=export_quickly(own_collector.url))
    client = connect_to(server)
    assert client.put(ROOT + path, headers=TEXT).status_code == 201
    eventually(lambda: LOST.format(url=own_collector.url) in server.stderr)
    assert server.terminate() == 0
    check_log(server, own_collector.url)


def test_a_collector_that_never_answers_does_not_hold_up_the_server(start_server, connect_to, own_collector, path):
    own_collector.answer = lambda path: 200 if own_collector.released.wait() else 500
    server = start_server(environment=export_to(own_collector.url, OTEL_BSP_MAX_QUEUE_SIZE="512"))
    client = connect_to(server)
    client.put(ROOT + path, headers=TEXT)
    own_collector.headers.get(timeout=20)  # an export is under way
    for _ in range(400):  # more spans than the queue holds
        assert client.post(ROOT + path, headers=TEXT, content=b"x").status_code == 204
    began_s = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began_s < limits.TELEMETRY_FLUSH_S_MAX + 5
    assert "Traceback" not in server.stderr
    assert server.stderr.count("the OpenTelemetry SDK reports: Queue full") == 1


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is zipkin, which Mainstem does not support"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "Mainstem supports only http/protobuf"),
        ({"OTEL_PROPAGATORS": "nonsense"}, "an OTEL_* variable is invalid"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "an OTEL_* variable is invalid"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "the OpenTelemetry SDK reports"),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "tar"}, "the OpenTelemetry SDK reports"),
        ({"OTEL_TRACES_SAMPLER": "nonsense"}, "the OpenTelemetry SDK reports"),
    ],
)
def test_a_server_with_invalid_variables_serves(start_server, connect_to, own_collector, path, variables, line):
    server = start_server(environment=export_to(own_collector.url, **variables))
    assert connect_to(server).put(ROOT + path, headers=TEXT).status_code == 201
    assert line in server.stderr
    assert "Traceback" not in server.stderr
    assert server.terminate() == 0
