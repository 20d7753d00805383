"""The files in `deploy/` agree with each other and with the server: names, ports, paths, settings and secrets."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mainstem.server.run import check_exposure
from mainstem.server.settings import Settings, load_settings
from mainstem.testing.server import ServerProcess, start_process
from tests.support.requirements import miss

yaml = pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PORT = Settings().port
ENDPOINTS = {"/healthz", "/readyz"}
BEYOND_SETTINGS = {"PGPASSWORD"}  # asyncpg reads it


def load_all(*names: str) -> dict[str, dict[str, Any]]:
    """Return Kubernetes objects by kind."""
    objects = [item for name in names for item in yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text())]
    return {item["kind"]: item for item in objects}


# Compose's tag for a list that replaces the one of an earlier file.
Override: Any = type("Override", (yaml.SafeLoader,), {})
Override.add_constructor("!override", lambda loader, node: loader.construct_sequence(node))


def load_compose(*names: str) -> dict[str, Any]:
    """The compose files, merged as `docker compose -f ... -f ...` merges them, as far as ours need it."""
    merged: dict[str, Any] = {}
    for name in names:
        loaded = yaml.load((DEPLOY / name).read_text(), Override)
        merged.setdefault("volumes", {}).update(loaded.get("volumes", {}))
        merged.setdefault("secrets", {}).update(loaded.get("secrets", {}))
        for service, values in loaded["services"].items():
            known = merged.setdefault("services", {}).setdefault(service, {})
            environment = known.get("environment", {}) | values.get("environment", {})
            volumes = {
                volume.split(":")[1]: volume for volume in [*known.get("volumes", []), *values.get("volumes", [])]
            }
            known.update(values | {"environment": environment, "volumes": [*volumes.values()]})
    return merged


def check_environment(environment: dict[str, str]) -> None:
    """Check that each variable is a setting, and that the known values are accepted."""
    for name in environment:
        if name not in BEYOND_SETTINGS:
            assert name.removeprefix("MAINSTEM_").lower() in Settings.__struct_fields__, name
    load_settings({}, {name: value for name, value in environment.items() if value and name.startswith("MAINSTEM_")})


def test_every_file_is_valid_yaml():
    files = [*DEPLOY.rglob("*.yaml")]
    assert len(files) >= 5
    for file in files:
        assert all(yaml.load_all(file.read_text(), Override)), file.name


@pytest.mark.parametrize(
    ("files", "configuration"),
    [(["compose.yaml"], "nginx-http.conf"), (["compose.yaml", "compose.tls.yaml"], "nginx.conf")],
    ids=["to try it out", "with TLS"],
)
def test_compose_starts_nodes_that_reach_the_database_and_a_proxy_that_reaches_the_nodes(files, configuration):
    compose = load_compose(*files)
    services = compose["services"]
    nodes = {name: service for name, service in services.items() if service.get("image") == "mainstem"}
    assert len(nodes) >= 2
    for node in nodes.values():
        check_environment(node["environment"])
        url = node["environment"]["MAINSTEM_STORE"]
        assert url.startswith("postgresql://mainstem@postgres:5432/")
        assert url.endswith("/" + services["postgres"]["environment"]["POSTGRES_DB"])
        assert node["environment"]["PGPASSWORD"] == services["postgres"]["environment"]["POSTGRES_PASSWORD"]
        assert node["depends_on"]["postgres"]["condition"] == "service_healthy"
        assert f"127.0.0.1:{PORT}/readyz" in node["healthcheck"]["test"][-1]
        assert set(node.get("secrets", [])) <= set(compose["secrets"])
        assert (DEPLOY / node["build"]["context"] / node["build"]["dockerfile"]).exists()
    upstreams = re.findall(r"server (\S+):(\d+)", (DEPLOY / configuration).read_text())
    assert {host for host, _ in upstreams} == {link.partition(":")[2] for link in services["proxy"]["links"]}
    assert {int(port) for _, port in upstreams} == {PORT}
    assert (
        {link.partition(":")[0] for link in services["proxy"]["links"]}
        == set(nodes)
        == set(services["proxy"]["depends_on"])
    )
    volumes = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert {volume for volume in volumes if not volume.startswith(".")} == set(compose["volumes"])
    assert f"./{configuration}:/etc/nginx/conf.d/default.conf:ro" in services["proxy"]["volumes"]


def test_compose_to_try_it_out_needs_no_file_and_no_variable_of_yours():
    text = (DEPLOY / "compose.yaml").read_text()
    assert ":?" not in text  # a variable without which Compose refuses to start
    compose = load_compose("compose.yaml")
    assert compose["secrets"] == {}
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).is_file(), source
    assert compose["services"]["proxy"]["ports"] == ["127.0.0.1:8080:80"]  # without tokens, for this machine only
    for name in ("node-1", "node-2"):
        settings = load_settings({}, compose["services"][name]["environment"])
        check_exposure(settings)
        assert not settings.authenticates
        assert "ports" not in compose["services"][name]


def test_compose_with_tls_needs_tokens_and_files_that_it_explains():
    compose = load_compose("compose.yaml", "compose.tls.yaml")
    for name in ("node-1", "node-2"):
        settings = load_settings({}, compose["services"][name]["environment"])
        assert settings.authenticates
        assert not settings.insecure
    explained = (DEPLOY / "compose.tls.yaml").read_text().partition("\n\n")[0]
    wanted = [volume.split(":")[0] for volume in compose["services"]["proxy"]["volumes"]]
    missing = [name for name in [*wanted, compose["secrets"]["token"]["file"]] if name.startswith("../")]
    assert len(missing) == 3
    for name in missing:
        assert Path(name).name in explained


def test_the_proxies_with_and_without_tls_differ_in_nothing_else():
    _, _, tls = (DEPLOY / "nginx.conf").read_text().partition("\n\n")
    _, _, plain = (DEPLOY / "nginx-http.conf").read_text().partition("\n\n")
    lines = [line for line in tls.splitlines() if not re.match(r" *(?:server_name|ssl_certificate)", line)]
    assert plain.splitlines() == [line.replace("listen 443 ssl;", "listen 80;") for line in lines]


def test_kubernetes_objects_agree_with_each_other():
    objects = load_all("deployment.yaml", "service.yaml", "ingress.yaml", "secret.example.yaml")
    assert set(objects) == {"Deployment", "Service", "PodDisruptionBudget", "Ingress", "Secret"}
    pod = objects["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert objects["Deployment"]["spec"]["replicas"] >= 2
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["http"] == PORT
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] in ports
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        assert container[probe]["httpGet"]["path"] in ENDPOINTS
        assert container[probe]["httpGet"]["port"] in ports
    backend = objects["Ingress"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend["name"] == objects["Service"]["metadata"]["name"]
    assert backend["port"]["name"] == objects["Service"]["spec"]["ports"][0]["name"]


def test_kubernetes_nodes_get_settings_and_secrets_that_exist():
    objects = load_all("deployment.yaml", "secret.example.yaml")
    secret = objects["Secret"]
    spec = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    environment: dict[str, str] = {}
    for variable in container["env"]:
        if "value" in variable:
            environment[variable["name"]] = variable["value"]
        else:
            source = variable["valueFrom"]["secretKeyRef"]
            assert source["name"] == secret["metadata"]["name"]
            environment[variable["name"]] = secret["stringData"][source["key"]]
    check_environment(environment)
    (volume,) = spec["volumes"]
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    (item,) = volume["secret"]["items"]
    (mount,) = container["volumeMounts"]
    assert item["key"] in secret["stringData"]
    assert environment["MAINSTEM_JWT_SECRET_FILE"] == f"{mount['mountPath']}/{item['path']}"


def test_kubernetes_does_not_overwrite_the_port():
    """A service named mainstem would set MAINSTEM_PORT in each pod, to something like tcp://10.0.0.1:80."""
    assert load_all("service.yaml")["Service"]["metadata"]["name"] == "mainstem"
    assert load_all("deployment.yaml")["Deployment"]["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_the_image_runs_the_command_that_the_manifests_expect():
    lines = (DEPLOY / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["mainstem"]' in lines
    assert f"EXPOSE {PORT}" in lines
    user = re.search(r"^USER (\d+)$", lines, re.MULTILINE)
    assert user is not None
    pod = load_all("deployment.yaml")["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == int(user[1])
    assert pod["containers"][0]["args"][0] == "serve"


# The image. These tests do not run Docker (layers, users).


def read_dockerfile() -> list[tuple[str, str]]:
    """Return the instructions and their arguments, with continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def find_pips() -> list[list[str]]:
    """Return the arguments of each pip command in the image."""
    commands = [part for word, rest in read_dockerfile() if word == "RUN" for part in rest.split("&&")]
    return [shlex.split(command)[1:] for command in commands if command.split()[0] == "pip"]


def read_pins(name: str) -> dict[str, str]:
    pins = re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^ \\\n]+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE)
    return dict(pins)


def test_the_image_only_installs_packages_that_are_pinned_by_hash():
    locked, ours = find_pips()
    assert {"install", "--require-hashes", "-r", "/src/requirements/image.txt"} <= set(locked)
    assert {"install", "--no-deps", "--no-build-isolation", "/src"} <= set(ours)
    entries = (ROOT / "requirements" / "image.txt").read_text().replace("\\\n", " ").splitlines()
    assert entries
    assert all(re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


def test_the_image_installs_the_tested_versions_with_postgresql_and_arrow():
    image, tested = read_pins("image.txt"), read_pins("dev.txt")
    assert image.items() <= tested.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    needed = [*project["project"]["dependencies"], *extras["postgres"], *extras["arrow"]]
    names = {re.split(r"[^A-Za-z0-9-]", need)[0].lower() for need in [*needed, *project["build-system"]["requires"]]}
    assert {"asyncpg", "pyarrow", "hatchling"} <= names
    assert names <= set(image)


def test_the_image_copies_every_file_that_its_build_reads():
    copied = {name for word, rest in read_dockerfile() if word == "COPY" for name in rest.split()[:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"pyproject.toml", "src", "requirements/image.txt", project["readme"], *project["license-files"]} == copied
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_with_the_packages_of_the_image_serves_arrow(tmp_path, monkeypatch):
    """Run its pip commands in a new environment, with this Python instead of the image's."""
    source, environment = tmp_path / "src", tmp_path / "environment"
    for word, rest in read_dockerfile():
        if word == "COPY":
            for name in rest.split()[:-1]:
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    monkeypatch.setenv("PIP_NO_COMPILE", "1")
    for arguments in find_pips():
        command = [environment / "bin" / "pip", *(part.replace("/src", str(source), 1) for part in arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "NewConnectionError" in done.stderr or "NameResolutionError" in done.stderr:
            miss("a package index", "pip must reach one")
        assert done.returncode == 0, done.stderr
    monkeypatch.delenv("PYTHONPATH", raising=False)
    launch = partial(start_process, command=[str(environment / "bin" / "mainstem"), "serve"])
    monkeypatch.setattr(ServerProcess, "launch", staticmethod(launch))
    with ServerProcess(tmp_path / "data") as server, httpx2.Client(base_url=server.url, trust_env=False) as client:
        client.put("/v1/stream/a", headers={"content-type": "text/plain"}, content=b"row")
        page = client.get("/v1/log", headers={"accept": "application/vnd.apache.arrow.stream"})
        assert (page.status_code, page.headers["content-type"]) == (200, "application/vnd.apache.arrow.stream")
    found = subprocess.run([environment / "bin" / "python", "-c", "import asyncpg"], check=False)
    assert found.returncode == 0
