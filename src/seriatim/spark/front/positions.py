"""The positions to which the locations of a stopped query have counted, whichever of its operators has counted last."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from seriatim.spark.resequence.held import state_variable, variables_of
from seriatim.spark.session.requirements import use_this_python
from seriatim.spark.state.ticket_counters import Counters


def positions_in(session: SparkSession, query: str) -> dict[str, int]:
    """By location the position of its next ticket. Counters never fall, so of several the highest is the present one."""
    use_this_python(session)
    found: dict[str, int] = {}
    for operator, names in variables_of(session, query).items():
        for name in names & {"counters", "index"}:
            values = state_variable(session, query, operator, name)
            if name == "index":
                values = values.where(F.col("key.bucket") < 0)
            for row in values.select("value.value").collect():
                counters = Counters.from_bytes(bytes(row[0]), None)
                for location, following in zip(
                    counters.locations.to_pylist(), counters.following.tolist(), strict=True
                ):
                    found[location] = max(following, found.get(location, 1))
    return found
