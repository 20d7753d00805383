"""The dashboard and the alerts in `deploy/` name metrics that exist, and a real Prometheus understands all of it."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mainstem import errors
from mainstem.metrics.catalogue import Metrics
from mainstem.metrics.instruments import Kind
from mainstem.server.settings import Settings
from mainstem.streams.subscriptions.webhook_client import Outcome
from mainstem.testing.server import PROGRAM, ServerProcess
from tests.docs.pages import find_anchors
from tests.support.plain_http import connect, head, post, receive
from tests.support.prometheus import RULES, Prometheus, run_promtool
from tests.support.promql import Comparison, Query, Selector, parse
from tests.support.waits import eventually

yaml = pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "mainstem.json").read_text())
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]
RECORDS = [rule for group in GROUPS for rule in group["rules"] if "record" in rule]

OF_PROMETHEUS = {"job", "instance"}
"""The labels that Prometheus adds to everything that it scrapes."""
ALERT_LABELS = {"alertname", "alertstate"}


def find_families() -> dict[str, set[str]]:
    """Return the labels of each name that a scrape, Prometheus or a recording rule may produce."""
    found = {"up": OF_PROMETHEUS, "ALERTS": ALERT_LABELS}
    for family in Metrics().families:
        labels = {*family.labels} | OF_PROMETHEUS
        if family.kind is Kind.HISTOGRAM:
            found |= {f"{family.name}_bucket": labels | {"le"}}
            found |= {f"{family.name}{part}": labels for part in ("_sum", "_count")}
        else:
            found[family.name] = labels
    return found | {rule["record"]: OF_PROMETHEUS for rule in RECORDS}


FAMILIES = find_families()


def list_panels(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for panel in panels:
        yield panel
        yield from list_panels(panel.get("panels", []))


PANELS = list(list_panels(DASHBOARD["panels"]))
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
TARGETS = [(panel["title"], target) for panel in PANELS for target in panel.get("targets", [])]


def fill_in(expression: str) -> str:
    """Replace the variables of Grafana."""
    return re.sub(r"\$(?:job|instance)\b", ".*", expression.replace("$__rate_interval", "1m"))


EXPRESSIONS = [
    *(pytest.param(rule["expr"], id=rule.get("alert", rule.get("record"))) for rule in [*RECORDS, *ALERTS]),
    *(pytest.param(fill_in(target["expr"]), id=f"{title} {target['refId']}") for title, target in TARGETS),
    *(pytest.param(fill_in(mark["expr"]), id=mark["name"]) for mark in DASHBOARD["annotations"]["list"]),
]

# The parser


def test_the_parser_finds_metrics_and_labels_and_nothing_else():
    expression = """
        sum by (job, le) (rate(a_bucket{x="}",y=~'by|on'}[5m] offset 1h)) / on (job) group_left (z) b:c_total > bool 1e3
        or time() - max without (q) (d) < 26 * 3600 and absent(up{})
    """
    assert parse(expression) == Query(
        [
            Selector("a_bucket", (Comparison("x", "=", "}"), Comparison("y", "=~", "by|on"))),
            Selector("b:c_total"),
            Selector("d"),
            Selector("up"),
        ],
        {"job", "le", "z", "q"},
    )
    assert parse('sum(a{l="v"}) by (l)') == Query([Selector("a", (Comparison("l", "=", "v"),))], {"l"})


# The dashboard and the rules against the catalogue


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_exists(expression):
    query = parse(expression)
    assert query.selectors
    for selector in query.selectors:
        assert selector.metric in FAMILIES
        assert {comparison.label for comparison in selector.comparisons} <= FAMILIES[selector.metric]
    assert query.groups <= set().union(*(FAMILIES[selector.metric] for selector in query.selectors))


def test_every_error_code_and_outcome_exists():
    codes = {error.code for error in vars(errors).values() if isinstance(error, type) and hasattr(error, "code")}
    expressions = [rule["expr"] for rule in ALERTS + RECORDS] + [target["expr"] for _, target in TARGETS]
    selectors = [selector for expression in expressions for selector in parse(expression).selectors]
    compared = [comparison for selector in selectors for comparison in selector.comparisons]
    for label, known in (("code", codes), ("outcome", {*Outcome})):
        named = {value for item in compared if item.label == label for value in item.value.split("|") if value}
        assert named
        assert named <= known


def test_alerts_of_processes_are_about_this_server():
    """Other programs have metrics of these names, too."""
    for rule in [*ALERTS, *RECORDS]:
        for selector in parse(rule["expr"]).selectors:
            if selector.metric == "up" or selector.metric.startswith(("process_", "python_")):
                assert Comparison("job", "=", "mainstem") in selector.comparisons, rule


# The alerts


def test_alerts_say_what_is_wrong_and_where_to_read_on():
    page = ROOT / "docs" / "operations" / "monitoring.md"
    anchors = find_anchors(page.read_text())
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS) > 15
    for rule in ALERTS:
        assert rule["alert"].startswith("Mainstem")
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
        path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert ROOT / path == page
        assert anchor == rule["alert"].lower()
        assert anchor in anchors
    assert {anchor for anchor in anchors if anchor.startswith("mainstem")} == {rule["alert"].lower() for rule in ALERTS}


def test_promtool_accepts_the_rules_and_the_configuration(tmp_path):
    checked = run_promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stdout.decode()
    assert f"{len(ALERTS) + len(RECORDS)} rules found" in checked.stdout.decode()
    Prometheus(tmp_path, ("127.0.0.1", 1))
    checked = run_promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout.decode()


@pytest.mark.slow
def test_alerts_fire_when_they_should_and_only_then():
    tested = RULES.with_name("mainstem.rules.test.yml")
    names = set(re.findall(r'alertname="(\w+)"', tested.read_text()))
    assert names == {rule["alert"] for rule in ALERTS}, "every alert needs a test in which it fires"
    done = run_promtool("test", "rules", str(tested))
    assert done.returncode == 0, done.stdout.decode()


# The dashboard


def test_panels_are_complete_and_do_not_overlap():
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    cells: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        taken = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in taken) < 24
        cells |= taken
        if panel["type"] != "row":
            assert re.fullmatch(r"[A-Z1].+\.", panel["description"]), panel["title"]
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert panel["targets"]
    titles = [panel["title"] for panel in PANELS if panel["type"] != "row"]
    assert len(set(titles)) == len(titles)


def test_legends_show_labels_that_the_expression_keeps():
    for title, target in TARGETS:
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= parse(target["expr"]).groups, title


def test_panels_show_the_selected_servers_only():
    used = {name for _, target in TARGETS for name in re.findall(r"\$\{?(\w+)", target["expr"])}
    assert used == {"job", "instance", "__rate_interval"}
    assert {"datasource", "job", "instance"} == set(VARIABLES)
    for title, target in TARGETS:
        for selector in parse(target["expr"]).selectors:
            if selector.metric != "ALERTS":
                assert Comparison("job", "=~", "$job") in selector.comparisons, title
                assert Comparison("instance", "=~", "$instance") in selector.comparisons, title
    for name in ("job", "instance"):
        metric = re.match(r"label_values\((\w+)", VARIABLES[name]["query"]["query"])
        assert metric is not None
        assert metric[1] in FAMILIES


# Compose and Kubernetes


def test_compose_starts_a_prometheus_that_may_scrape_the_nodes_and_a_grafana_that_finds_it():
    compose = yaml.safe_load((DEPLOY / "compose.monitoring.yaml").read_text())
    services = compose["services"]
    nodes = [name for name in services if name.startswith("node-")]
    assert set(nodes) < set(yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"])
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == [f"{node}:{Settings().port}" for node in nodes]
    assert all(services[node]["environment"] == {"MAINSTEM_METRICS": "on"} for node in nodes)
    volumes = [volume for name in ("prometheus", "grafana") for volume in services[name]["volumes"]]
    files = [volume.split(":")[0] for volume in volumes if volume.startswith("./")]
    assert len(files) == 4
    assert all((DEPLOY / file).exists() for file in files)
    assert any(volume.endswith(f":{scraped['authorization']['credentials_file']}:ro") for volume in volumes)
    (source,) = yaml.safe_load((DEPLOY / "grafana" / "datasource.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yaml").read_text())["providers"]
    assert any(f":{provider['options']['path']}/mainstem.json" in volume for volume in volumes)
    for name in ("prometheus", "grafana"):
        assert all(port.startswith("127.0.0.1:") for port in services[name]["ports"])


def test_kubernetes_says_where_the_metrics_are():
    pod = yaml.safe_load((DEPLOY / "kubernetes" / "deployment.yaml").read_text())["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    annotations = {name.partition("/")[2]: value for name, value in pod["metadata"]["annotations"].items()}
    assert annotations == {"scrape": "true", "port": str(container["ports"][0]["containerPort"]), "path": "/metrics"}
    assert {"name": "MAINSTEM_METRICS", "value": "on"} in container["env"]


# A real server


def write_something(server: ServerProcess) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        client.put("/v1/stream/a", headers={"content-type": "application/json"})
        client.post("/v1/stream/a", headers={"content-type": "application/json"}, content=b"[1,2,3]")
        client.get("/v1/stream/missing")
        client.get("/v1/log")


@pytest.mark.slow
def test_a_real_prometheus_scrapes_a_server_and_evaluates_all_rules_and_panels(tmp_path):
    with ServerProcess(tmp_path / "data") as server, Prometheus(tmp_path, server.address) as prometheus:
        write_something(server)
        assert eventually(lambda: prometheus.query("mainstem_log_head == 2"))
        ((labels, value),) = prometheus.query('mainstem_http_requests_total{method="POST"}')
        assert (labels["job"], labels["route"], labels["status"], value) == ("mainstem", "/v1/stream/{path}", "204", 1)
        assert prometheus.query("up") == [({"__name__": "up", "job": "mainstem", "instance": labels["instance"]}, 1)]
        ((_, count),) = prometheus.query('mainstem_log_commit_duration_seconds_bucket{le="+Inf"}')
        assert count >= 2
        # Only OpenMetrics has units.
        (about,) = prometheus.get("targets/metadata", metric="mainstem_log_commit_duration_seconds")
        assert (about["type"], about["unit"]) == ("histogram", "seconds")

        def list_rules():
            return [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]

        rules = eventually(lambda: all(rule["health"] == "ok" for rule in list_rules()) and list_rules())
        assert len(rules) == len(ALERTS) + len(RECORDS)
        firing = {rule["name"] for rule in rules if rule.get("state") == "firing"}
        assert firing <= {"MainstemDiskAlmostFull"}  # of the machine that runs the test
        eventually(lambda: prometheus.query("instance:mainstem_http_requests:rate5m > 0"))

        empty = {title for title, target in TARGETS if not prometheus.query(fill_in(target["expr"]))}
        assert not empty & {
            "Requests",
            "Requests by route",
            "Errors by code",
            "Duration of requests",
            "Records",
            "Head",
        }
        assert not empty & {
            "Duration of commits",
            "Size of the store",
            "Rows of the log",
            "CPU",
            "Version",
            "Live readers",
        }


@pytest.mark.slow
def test_a_real_prometheus_scrapes_a_server_with_tokens(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s" * 40)
    secret.chmod(0o600)
    command = [*PROGRAM, "token", "--secret-file", str(secret), "--client-id", "prometheus", "--metrics"]
    token = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    flags = ("--jwt-secret-file", str(secret))
    with ServerProcess(tmp_path / "data", *flags) as server, Prometheus(tmp_path, server.address, token) as prometheus:
        assert eventually(lambda: prometheus.query("mainstem_leader == 1"))


@pytest.fixture
def server(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        yield server


def test_promtool_accepts_the_text_format(server):
    write_something(server)
    text = httpx2.get(f"{server.url}/metrics", trust_env=False).content
    checked = run_promtool("check", "metrics", input_=text)
    assert checked.returncode == 0, checked.stdout.decode()


def test_many_scrapes_do_not_keep_writers_from_their_replies(server):
    """Ten scrapers that never pause, as if a thousand scrapes came in a minute."""
    scrapes: list[int] = []
    write_something(server)

    def scrape() -> None:
        with connect(server.address) as connection:
            for _ in range(20):
                connection.sendall(head(b"GET", b"/metrics"))
                reply = receive(connection)
                assert b"\nmainstem_log_head " in reply.body
                scrapes.append(reply.status)

    threads = [threading.Thread(target=scrape) for _ in range(10)]
    for thread in threads:
        thread.start()
    with connect(server.address) as connection:
        connection.sendall(head(b"PUT", b"/v1/stream/b", b"Content-Type: text/plain"))
        assert receive(connection, "PUT").status == 201
        appends, scraping = 0, True
        while scraping:
            scraping = any(thread.is_alive() for thread in threads)
            connection.sendall(post("/v1/stream/b", b"x"))
            assert receive(connection, "POST").status == 204
            appends += 1
    for thread in threads:
        thread.join()
    assert scrapes == [200] * 200
    text = httpx2.get(f"{server.url}/metrics", trust_env=False).text
    assert re.search(r'requests_total\{route="/metrics",method="GET",status="200",code=""\} 200\n', text)
    assert re.search(rf'records_total\{{kind="append"\}} {appends + 1}\n', text)
