"""Spark reads and writes the log: as Arrow, compared with tuples and Parquet; as a stream; and during appends."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

from bench.generator import ROOT, LoadFailed, module_environment, run_load, run_module
from bench.load_jobs import Append, Figures
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Server

ROWS = 1_000_000
TIMES = 3
LIMIT_S = 900.0
WORKLOAD = "bench.spark_workload"


def workload_arguments(server: Server, rows: int, times: int) -> list[str]:
    return [str(server.port), str(server.folder / "spark"), str(rows), str(times)]


def run_spark(server: Server, rows: int) -> Figures:
    return run_module(WORKLOAD, *workload_arguments(server, rows, TIMES), name="Spark", limit_s=LIMIT_S)


def append(server: Server, pace: Pace, stream: str | None = None) -> float:
    """Return the append rate of 64 connections, to a new stream or to an existing one."""
    job = Append(port=server.port, connections=64, stream=stream, seconds=2 * pace.seconds, warmup_s=pace.warmup_s)
    return run_load(job)["per_s"]


def append_during_reads(server: Server, pace: Pace) -> float:
    """Return the append rate while Spark reads the log into Parquet repeatedly."""
    command = [sys.executable, "-m", WORKLOAD, *workload_arguments(server, 0, 0)]
    pipe, devnull = subprocess.PIPE, subprocess.DEVNULL
    spark = subprocess.Popen(command, cwd=ROOT, env=module_environment(), stdin=pipe, stdout=pipe, stderr=devnull)
    assert spark.stdin is not None
    assert spark.stdout is not None
    try:
        if spark.stdout.readline().strip() != b"ready":
            raise LoadFailed("Spark did not start to read")
        return append(server, pace, "append-0000")
    finally:
        spark.stdin.close()
        spark.wait(LIMIT_S)
        spark.stdout.close()


def run_first_query(server: Server) -> Figures:
    arguments = (server.port, server.folder / "spark", time.time())
    return run_module("bench.first_query_workload", *arguments, name="the first query", limit_s=LIMIT_S)


def measure_spark(server: Server, pace: Pace) -> list[Measurement]:
    rows = int(ROWS * pace.fill)
    figures = run_spark(server, rows)
    first = run_first_query(server)
    parquet = figures["parquet_rows_per_s"]
    alone = append(server, pace)
    during = append_during_reads(server, pace)
    shutil.rmtree(server.folder / "spark", ignore_errors=True)
    title = f"Spark, {rows / 1e6:g} million rows of 190 bytes"
    return [
        Measurement("spark-read", f"{title}: aggregate", figures["rows_per_s"], "rows/s", details=figures),
        Measurement(
            "spark-read-parquet", f"{title}: time / time from Parquet", parquet / figures["rows_per_s"], "x", "less"
        ),
        Measurement(
            "spark-columns", f"{title}: only the columns of the query", figures["columns_rows_per_s"], "rows/s"
        ),
        Measurement(
            "spark-columns-parquet",
            f"{title}: only the columns of the query, time / time from Parquet",
            parquet / figures["columns_rows_per_s"],
            "x",
            "less",
        ),
        Measurement("spark-first", "the first query of a new process", first["query_s"], "s", "less", first),
        Measurement("spark-tuples", f"{title}: as Python tuples", figures["tuple_rows_per_s"], "rows/s"),
        Measurement(
            "spark-times", f"{title}: times the tuples", figures["rows_per_s"] / figures["tuple_rows_per_s"], "x"
        ),
        Measurement("spark-parquet", f"{title}: from Parquet", figures["parquet_rows_per_s"], "rows/s"),
        Measurement(
            "spark-land", f"{title}: availableNow into Parquet", figures["available_now_s"], "s", better="less"
        ),
        Measurement("spark-sink", f"{title}: into one stream", figures["sink_rows_per_s"], "rows/s"),
        Measurement("spark-appends", "appends while Spark reads", during, "appends/s", details={"alone_per_s": alone}),
        Measurement(
            "spark-appends-kept", "appends while Spark reads: share of the rate alone", 100 * during / alone, "%"
        ),
    ]


SPARK_SCENARIOS = [Scenario("spark", measure_spark, ours_only=True)]
