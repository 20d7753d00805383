import socket
from contextlib import closing

import httpx2
import pytest

from mainstem.errors import BadPipelineFile
from mainstem.metrics import exposition
from mainstem.metrics.pipeline import PipelineMetrics
from mainstem.pipeline.service.definition import Endpoint
from mainstem.pipeline.service.metrics_listener import serve_metrics


def test_metrics_in_both_formats():
    metrics = PipelineMetrics()
    metrics.rounds.of("archive", "lake", "done").add(3)
    with serve_metrics(metrics, Endpoint("127.0.0.1", 0)) as address:
        assert address is not None
        with httpx2.Client(base_url=f"http://127.0.0.1:{address.port}", trust_env=False) as client:
            reply = client.get("/metrics")
            assert reply.headers["content-type"] == exposition.TEXT
            assert (
                'mainstem_pipeline_rounds_total{kind="archive",name="lake",outcome="done"} 3' in reply.text.splitlines()
            )
            reply = client.get("/metrics?x", headers={"Accept": "application/openmetrics-text"})
            assert reply.headers["content-type"] == exposition.OPEN_METRICS
            assert reply.text.endswith("# EOF\n")
            assert client.head("/metrics").content == b""
            assert client.get("/healthz").text == "ok\n"
            assert client.get("/").status_code == 404
            assert client.post("/metrics").status_code == 501


def test_no_address_means_no_listener():
    with serve_metrics(PipelineMetrics(), None) as address:
        assert address is None


def test_a_port_in_use_is_named():
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        refusal = pytest.raises(
            BadPipelineFile, match=f"cannot serve metrics at 127.0.0.1:{port}: address already in use"
        )
        with refusal, serve_metrics(PipelineMetrics(), Endpoint("127.0.0.1", port)):
            pass
