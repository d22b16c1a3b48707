"""A query as a user of Spark writes it: out of one queue of a box, into another. It is there to be killed."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(schema: str, checkpoint: str) -> None:
    """Take what is in the queue now. Which server it is says ``SERIATIM_DSN``, and no message has an id of its own."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    orders = spark.readStream.format("seriatim").option("schema", schema).option("queue", "orders")
    rows = orders.option("maxMessagesPerTrigger", 150).load()
    copies = rows.select(F.lit("copy").alias("type"), "customer", "version", "body")
    writer = copies.writeStream.format("seriatim").option("schema", schema).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
