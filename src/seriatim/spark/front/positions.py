"""The positions to which the locations of a stopped query have counted, whichever of its operators has counted last."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from seriatim.spark.session.requirements import use_this_python
from seriatim.spark.state.ticket_counters import Counters


def positions_in(session: SparkSession, query: str) -> dict[str, int]:
    """By location the position of its next ticket. Counters never fall, so of several the highest is the present one."""
    use_this_python(session)
    found: dict[str, int] = {}
    metadata = session.read.format("state-metadata").load(query).select("operatorId", "operatorProperties")
    for operator, properties in metadata.distinct().collect():
        names = {one["stateName"] for one in json.loads(properties or "{}").get("stateVariables", [])}
        for name in names & {"counters", "index"}:
            reader = session.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
            values = reader.load(query)
            if name == "index":
                values = values.where(F.col("key.bucket") < 0)
            for row in values.select("value.value").collect():
                counters = Counters.from_bytes(bytes(row[0]), None)
                for location, following in zip(
                    counters.locations.to_pylist(), counters.following.tolist(), strict=True
                ):
                    found[location] = max(following, found.get(location, 1))
    return found
