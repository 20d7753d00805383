"""From a live stream to a DataFrame in two minutes, cell by cell (`# %%` are cells in VS Code, PyCharm and Jupytext).

    make serve                                        # in one terminal
    python examples/spark_two_minutes.py [URL]        # in another; needs mainstem[spark], but no Java of your own

Prints what each cell finds. A second run goes on where the first one stopped: nothing is counted twice.
"""

# %% A Spark that is set up for the log: Java found, workers on this Python, times in UTC
import json
import sys
from urllib.request import Request, urlopen

from pyspark.sql import functions as f

from mainstem.pipeline import session

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4437"
WORK = sys.argv[2] if len(sys.argv) > 2 else "./spark-two-minutes"

spark = session("two-minutes", work=WORK)


# %% Something to look at: orders of a shop, appended to a stream as any client would
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

# %% The stream is a DataFrame. `schema` makes columns of the JSON; the columns of the log are there as well
log = spark.read.format("mainstem").option("url", URL)
frame = log.option("schema", "item STRING, cents BIGINT, at TIMESTAMP").load("shop/orders")
frame.select("committed_id", "position", "item", "cents", "at").show(3)

# %% Ask it something
frame.groupBy("item").agg(f.count("*").alias("orders"), f.sum("cents").alias("cents")).orderBy("item").show()

# %% Filters on ids, streams, kinds and times are sent to the server, which then sends less
first = frame.select("committed_id").orderBy("committed_id").limit(1).collect()[0].committed_id
print("in the first append:", frame.filter(f"committed_id = {first}").count())

# %% Follow it, and write what comes out back into the log: every row exactly once, whatever is killed meanwhile
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
    .trigger(availableNow=True)  # all that is there, then stop; processingTime="1 second" goes on
    .start()
)
query.awaitTermination()
print("large orders:", spark.read.format("mainstem").option("url", URL).load("shop/large-orders").count())

# %%
spark.stop()
