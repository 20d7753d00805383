"""`python -m bench.first_query_workload PORT FOLDER STARTED`: print how long after STARTED the first query was done.

STARTED is the time at which the benchmark started this process, in seconds since 1970. Python, Java, Spark and its
workers all start in this time.
"""

from __future__ import annotations

import sys
import time

from bench.load_jobs import encode_figures
from bench.wire import HOST
from mainstem.pipeline import session

MASTER = "local[2]"


def main() -> None:
    port, folder, started_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
    spark = session("bench", MASTER, work=folder)
    session_s = time.time() - started_s
    found = spark.read.format("mainstem").option("url", f"http://{HOST}:{port}").load().limit(10).collect()
    query_s = time.time() - started_s
    if len(found) != 10:
        raise SystemExit(f"read {len(found)} rows instead of 10")
    spark.stop()
    print(encode_figures({"session_s": session_s, "query_s": query_s}))


if __name__ == "__main__":
    main()
