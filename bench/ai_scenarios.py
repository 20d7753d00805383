"""Runs of models: the first token, a crowd of runs with readers, and stops, also by another process."""

from __future__ import annotations

from bench.generator import run_module
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Server
from bench.wire import HOST

RUNS = 500
LIMIT_S = 180.0


def measure_runs(server: Server, pace: Pace) -> list[Measurement]:
    """Measure an app with an embedded log, and one whose runs are on the server."""
    seconds = max(4, int(pace.seconds))
    url = f"http://{HOST}:{server.port}"
    found = run_module("bench.ai_workload", RUNS, seconds, url, name="the runs", limit_s=LIMIT_S)
    if found["missing"]:
        raise RuntimeError(f"{found['missing']:.0f} tokens did not arrive")
    crowd = f"{RUNS} runs with 50 tokens/s and a reader each"
    growth = found["second_half_p50_ms"] / found["first_half_p50_ms"]
    return [
        Measurement(
            "ai-first", "first token of a run to an SSE reader, p99", found["first_p99_ms"], "ms", "less", found
        ),
        Measurement("ai-crowd", f"{crowd}: age of a token, p50", found["crowd_p50_ms"], "ms", "less", found),
        Measurement("ai-crowd-p99", f"{crowd}: age of a token, p99", found["crowd_p99_ms"], "ms", "less", found),
        Measurement("ai-crowd-growth", f"{crowd}: p50 of the second half / the first", growth, "times", "less", found),
        Measurement(
            "ai-stop",
            "stop of one of 200 runs, until its reader has the end, p99",
            found["stop_p99_ms"],
            "ms",
            "less",
            found,
        ),
        Measurement(
            "ai-remote-stop",
            "stop of one of 50 runs of another process, over HTTP, p99",
            found["remote_stop_p99_ms"],
            "ms",
            "less",
            found,
        ),
    ]


AI_SCENARIOS = [Scenario("ai", measure_runs, ours_only=True)]
