"""`merge`: the messages of two regions, as one frame in which each message is once and each session in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seriatim.errors import ColumnError, UsageError
from seriatim.kernel.groups.policy import Fifo, Policy, Standard
from seriatim.kernel.policies.copies import REGIONS
from seriatim.spark.frames.columns import check_columns, check_frame
from seriatim.spark.resequence.stage import resequence
from seriatim.spark.state.buckets import DEFAULT_BUCKETS


def merge(
    primary: DataFrame,
    secondary: DataFrame,
    *,
    session: str,
    message_id: str,
    number: str | None = None,
    policy: Policy | None = None,
    horizon: float | str | None = None,
    arrival: str | Sequence[str] | None = None,
    compare: str | Sequence[str] | None = None,
    clock: Literal["processing", "event"] = "processing",
    time: str | None = None,
    watermark: float | str | None = None,
    start_from: DataFrame | None = None,
    output: Literal["released", "all"] = "released",
    buckets: int = DEFAULT_BUCKETS,
    finish: bool = False,
    region: str = "region",
) -> DataFrame:
    """Puts what two regions have sent together: each message once, each session in order, while either region lags, stops or comes back.
    Each region has every message, with the same id. The first sight of a message counts, whichever region it comes from; when the other
    region shows it, it is a *copy*. With `number` the sessions are in the order of these numbers, by `Standard`: a number that neither
    region has shown holds up its session, one that either has shown doesn't. Copies are known by their numbers, however late they come.
    Without `number` the sessions are in the order of first sight, by `Fifo`. Then messages are known by their ids, which are remembered for
    `horizon`: each message leaves once, as long as no region shows it later than that after its first sight.
    """
    check_frame(primary, "merge")
    check_frame(secondary, "merge")
    if primary.isStreaming != secondary.isStreaming:
        raise UsageError(
            "one of the regions is a stream, and the other isn't", remedy="read both by readStream, or both by read"
        )
    check_columns(primary, [region])
    _check_alike(primary, secondary)
    chosen = policy or (Fifo() if number is None else Standard())
    if isinstance(chosen, Standard) and number is None:
        raise UsageError("Standard needs number=, the column of the numbers", remedy="give it, or take Fifo()")
    if isinstance(chosen, Fifo) and number is not None:
        raise UsageError("Fifo goes by arrival, and number= is given", remedy="leave it out, or take Standard()")
    first, second = (
        frame.withColumn(region, F.lit(name)) for frame, name in zip((primary, secondary), REGIONS, strict=True)
    )
    return resequence(
        first.unionByName(second),
        group=session,
        sequence=number,
        policy=chosen,
        compare=compare,
        arrival=arrival,
        clock=clock,
        time=time,
        watermark=watermark,
        start_from=start_from,
        output=output,
        buckets=buckets,
        finish=finish,
        region=region,
        message_id=message_id,
        horizon=horizon,
    )


def _check_alike(primary: DataFrame, secondary: DataFrame) -> None:
    ours, theirs = (
        {field.name: field.dataType.simpleString() for field in frame.schema} for frame in (primary, secondary)
    )
    for name in [*ours, *theirs]:
        if ours.get(name) != theirs.get(name):
            differences = [f"{where} has it as {kinds[name]}" if name in kinds else f"{where} lacks it"
                    for where, kinds in (("primary", ours), ("secondary", theirs))]  # fmt: skip
            raise ColumnError(
                f"both regions need the same columns: {', '.join(differences)}",
                where=f"column {name!r}",
                remedy="select and cast alike in both",
            )
