"""Three datasets: all orders, a summary of them, and large orders written back into the log."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

URL = os.environ["MAINSTEM_URL"]
WORK = os.environ["MAINSTEM_WORK"]
spark = SparkSession.active()

dp.create_sink("large_orders", "mainstem", {"url": URL, "stream": "shop/large-orders", "stagingLocation": WORK})


@dp.table
def orders() -> DataFrame:
    """Every order, exactly once, in a table that grows with the stream."""
    reader = spark.readStream.format("mainstem").option("url", URL)
    return reader.option("schema", "item STRING, cents BIGINT").load("shop/orders")


@dp.materialized_view
def sales() -> DataFrame:
    """Sales per item, recomputed in each run."""
    return spark.read.table("orders").groupBy("item").agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """Large orders, written back into the log."""
    return spark.readStream.table("orders").filter("cents >= 650").select("item", "cents")
