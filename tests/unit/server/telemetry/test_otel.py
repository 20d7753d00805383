"""What the variables of OpenTelemetry ask for, and what happens if its packages are missing."""

import logging
import os
import subprocess
import sys

import pytest

from mainstem.server.proxies import Proxies
from mainstem.server.telemetry import otel
from mainstem.server.telemetry.otel import Signals, describe_collector, find_signals, open_telemetry
from mainstem.testing.server import SETTINGS

ALL = "OTEL_EXPORTER_OTLP_ENDPOINT"
URL = "http://collector:4318"


@pytest.mark.parametrize(
    ("variables", "signals"),
    [
        ({}, (False, False)),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"}, (False, False)),
        ({ALL: ""}, (False, False)),
        ({ALL: URL}, (True, True)),
        ({ALL: URL, "OTEL_SDK_DISABLED": "TRUE"}, (False, False)),
        ({ALL: URL, "OTEL_SDK_DISABLED": "1"}, (True, True)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": URL}, (True, False)),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": URL}, (False, True)),
        ({ALL: URL, "OTEL_TRACES_EXPORTER": "none"}, (False, True)),
        ({ALL: URL, "OTEL_METRICS_EXPORTER": " None "}, (True, False)),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, (True, False)),
        ({"OTEL_METRICS_EXPORTER": "otlp,none"}, (False, False)),
        ({ALL: URL, "OTEL_TRACES_EXPORTER": "console"}, (False, True)),
        ({ALL: URL, "OTEL_METRICS_EXPORTER": "prometheus,otlp"}, (True, True)),
        ({ALL: URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, (False, False)),
        ({ALL: URL, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"}, (True, False)),
        ({ALL: URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, (True, True)),
    ],
)
def test_variables_decide_what_is_exported(variables, signals):
    assert find_signals(variables) == Signals(*signals)


@pytest.mark.parametrize(
    ("variables", "collector"),
    [
        ({}, "http://localhost:4318"),
        ({ALL: "https://me:secret@collector:4318/base?key=secret"}, "https://collector:4318"),
        ({ALL: URL, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:1/v1/traces"}, "http://traces:1"),
    ],
)
def test_the_log_names_a_collector_without_secrets(variables, collector):
    assert describe_collector(variables, "TRACES") == collector


def test_a_missing_package_is_one_warning_with_the_way_out(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    monkeypatch.delitem(sys.modules, "mainstem.server.telemetry.otlp", raising=False)
    with caplog.at_level(logging.WARNING, otel.__name__):
        assert open_telemetry({ALL: URL}, lambda method, path, query: "", Proxies(())) is None
    (record,) = caplog.records
    assert "pip install 'mainstem[otel]'" in record.getMessage()
    assert record.exc_info is None


def test_nothing_of_opentelemetry_is_imported_unless_it_is_configured():
    program = """
import sys
import mainstem
from mainstem.server.run import make_app
from mainstem.server.settings import Settings
assert make_app(Settings(store="memory")).telemetry is None
sys.exit(any(name.partition(".")[0] == "opentelemetry" for name in sys.modules))
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    assert subprocess.run([sys.executable, "-c", program], env=environment, timeout=60).returncode == 0
