"""From a live stream to a DataFrame in two minutes, cell by cell (`# %%` are cells in VS Code, PyCharm and Jupytext).

    make serve                                              # in one terminal
    .venv/bin/python examples/spark_two_minutes.py [URL]    # in another; you need no Java of your own

Each cell prints its result. A second run continues where the first one stopped, and stores no row twice.
"""

# %% A Spark session that is configured for the log: it finds Java, its workers run this Python, and times are in UTC
import json
import sys
from urllib.request import Request, urlopen

from pyspark.sql import functions as f

from mainstem.pipeline import session

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4437"
WORK = sys.argv[2] if len(sys.argv) > 2 else "./spark-two-minutes"

spark = session("two-minutes", work=WORK)


# %% Some data: the orders of a shop, appended to a stream over HTTP
def send(method: str, stream: str, body: object = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"{URL}/v1/stream/{stream}", data, {"Content-Type": "application/json"}, method=method)):
        pass


orders = [
    {"item": ("tea", "milk", "bread")[n % 3], "cents": 100 + n, "at": f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z"}
    for n in range(600)
]
send("PUT", "shop/orders")
send("POST", "shop/orders", orders)

# %% The stream is a DataFrame. `schema` extracts columns from JSON, in addition to the columns of the log
log = spark.read.format("mainstem").option("url", URL)
frame = log.option("schema", "item STRING, cents BIGINT, at TIMESTAMP").load("shop/orders")
frame.select("committed_id", "position", "item", "cents", "at").show(3)

# %% Query it
frame.groupBy("item").agg(f.count("*").alias("orders"), f.sum("cents").alias("cents")).orderBy("item").show()

# %% Spark sends filters on ids, streams, kinds and times to the server, which then sends fewer rows
first = frame.select("committed_id").orderBy("committed_id").limit(1).collect()[0].committed_id
print("in the first append:", frame.filter(f"committed_id = {first}").count())

# %% Follow the stream, and write the large orders back into the log: every row exactly once, even across kills
live = spark.readStream.format("mainstem").option("url", URL)
large = (
    live.option("schema", "item STRING, cents BIGINT")
    .load("shop/orders")
    .filter("cents >= 650")
    .select("item", "cents")
)
query = (
    large.writeStream.format("mainstem")
    .option("url", URL)
    .option("stream", "shop/large-orders")
    .option("checkpointLocation", f"{WORK}/checkpoint")
    .trigger(availableNow=True)  # process everything, then stop; processingTime="1 second" keeps running
    .start()
)
query.awaitTermination()
print("large orders:", spark.read.format("mainstem").option("url", URL).load("shop/large-orders").count())

# %%
spark.stop()
