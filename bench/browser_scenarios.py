"""The JavaScript client in Chromium: ten thousand committed events into a view, from the server and from its store."""

from __future__ import annotations

from bench.generator import run_module
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Server

EVENTS = 10_000
TIMES = 5
LIMIT_S = 120.0


def measure_browser(server: Server, pace: Pace) -> list[Measurement]:
    events = int(EVENTS * pace.fill)
    found = run_module("bench.browser_workload", server.port, events, TIMES, name="the browser", limit_s=LIMIT_S)
    what = f"{events} events into a view in Chromium"
    return [
        Measurement("browser-view", f"{what}, from the server", found["view_ms"], "ms", "less", found),
        Measurement("browser-rows", f"{events} rows into IndexedDB alone", found["rows_ms"], "ms", "less", found),
        Measurement("browser-open", f"{what}, from its store", found["open_ms"], "ms", "less", found),
    ]


BROWSER_SCENARIOS = [Scenario("browser", measure_browser, ours_only=True)]
