"""The current customers: the newest change of each one, in the order of the log, without those that were deleted."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

URL = os.environ["MAINSTEM_URL"]
spark = SparkSession.active()


@dp.materialized_view
def customers() -> DataFrame:
    """What AutoCDC would keep as SCD type 1, on any format. Messages of one append share their committed id."""
    reader = spark.read.format("mainstem").option("url", URL)
    changes = reader.option("schema", "customer STRING, name STRING, deleted BOOLEAN").load("shop/customers")
    newest = f.max_by(f.struct("name", "deleted"), f.struct("committed_id", "position"))
    current = changes.where("customer IS NOT NULL").groupBy("customer").agg(newest.alias("newest"))
    return current.where("NOT coalesce(newest.deleted, false)").select("customer", "newest.name")
