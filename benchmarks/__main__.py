"""Run the benchmarks of the two engines and print ratios, a table and JSON.

On Spark: same source (Parquet; a whole pipeline reads JSON lines), same sink (Parquet), same number of partitions for
all; the times are Spark's own for each micro-batch, the first ones left out, the median of the rest taken. The message
box: see `benchmarks.box`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.box import boxes
from benchmarks.box_many import many
from benchmarks.box_size import sizes
from benchmarks.box_spark import between
from benchmarks.commands import commanding
from benchmarks.console import consoles
from benchmarks.coroutines import coroutines
from benchmarks.dialogs import talking
from benchmarks.fast_paths import fast_paths
from benchmarks.feed import Feed, Part
from benchmarks.filters import filtering
from benchmarks.gate import gates
from benchmarks.links import linking
from benchmarks.measure import Claim, identity, measure
from benchmarks.monitored import monitored
from benchmarks.peer import by_group
from benchmarks.pipelines import pipelines
from benchmarks.regions import claiming
from benchmarks.regions_whole import regions_whole
from benchmarks.stamp import stamping
from benchmarks.tuning import tuning
from benchmarks.whole import whole
from benchmarks.workers import working
from seriatim import Standard
from seriatim.spark import resequence
from seriatim.spark.session.builder import open_session

#: Everything on: time-outs with retries, skipping, late ones delivered, a capacity.
EVERYTHING = Standard(hole_timeout="1h", hole_retries=1, on_hole="skip", late="deliver", capacity=500_000)

MANY = Feed("many", (Part(7, 1_000_000, 100_000),))
SINGLE = Feed("single", (Part(7, 1_000_000, 1),))
SMALL = Feed("small", (Part(16, 1_000, 1_000, displaced=0.05),), files=2)
OTHERS = Part(8, 100_000, 10_000)
PLAIN = Feed("plain", (OTHERS,))
IDLE = Feed("idle", (Part(1, 1_000_000, 1_000_000, prefix="idle-", displaced=0), OTHERS))
BACKLOG = Feed("backlog", (Part(1, 200_000, 1, prefix="stuck-", displaced=0, first=2), OTHERS))


def ordered(source: DataFrame) -> DataFrame:
    """Ours."""
    return resequence(source, group="customer", sequence="version", policy=EVERYTHING)


def throughput(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """A million messages a batch."""
    ceiling = measure(spark, root, MANY, identity, "identity, 1,000,000 a batch, 100,000 groups")
    ours = measure(spark, root, MANY, ordered, "seriatim, the same")
    yield Claim(
        "Standard with everything on ÷ identity mapInArrow",
        ours.rate / ceiling.rate,
        0.5,
        True,
        (ours.cost, ceiling.cost),
    )
    single = measure(spark, root, SINGLE, ordered, "seriatim, one single group")
    yield Claim("one single group ÷ many groups", single.rate / ours.rate, 0.35, True, (single.cost, ours.cost))
    if peers:
        textbook = measure(spark, root, MANY, by_group, "transformWithState keyed by group, the textbook way")
        yield Claim(
            "Standard with everything on ÷ textbook TWS by group",
            ours.rate / textbook.rate,
            10,
            True,
            (ours.cost, textbook.cost),
        )


def small(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """A thousand messages a batch."""
    ceiling = measure(spark, root, SMALL, identity, "identity, 1,000 a batch", skip=4)
    ours = measure(spark, root, SMALL, ordered, "seriatim, 1,000 a batch", skip=4)
    yield Claim(
        "time of a batch of 1,000 ÷ identity", ours.median / ceiling.median, 2.5, False, (ours.cost, ceiling.cost)
    )


def state(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """What a large state costs those that don't use it."""
    measure(spark, root, PLAIN, ordered, "warm-up")  # else the first of the three pays for the JVM's compiler
    plain = measure(spark, root, PLAIN, ordered, "seriatim, 100,000 a batch, 10,000 groups", skip=3)
    idle = measure(spark, root, IDLE, ordered, "the same beside 1,000,000 idle groups", skip=3)
    backlog = measure(spark, root, BACKLOG, ordered, "the same beside a group that holds 200,000", skip=3)
    for what, other in (
        ("time beside a million idle groups ÷ without them", idle),
        ("time beside a backlog of 200,000 ÷ without it", backlog),
    ):
        yield Claim(what, other.median / plain.median, 1.3, False, (other.cost, plain.cost))


PARTS = {
    "box-spark": between,
    "filters": filtering,
    "pipelines": commanding,
    "small": small,
    "stamp": stamping,
    "state": state,
    "throughput": throughput,
    "whole": whole,
}

OFF_SPARK = {
    "async": coroutines,
    "box": boxes,
    "box-many": many,
    "box-size": sizes,
    "console": consoles,
    "dialogs": talking,
    "links": linking,
    "regions": claiming,
    "regions-whole": regions_whole,
    "fast-paths": fast_paths,
    "gate": gates,
    "monitored": monitored,
    "pipelines": pipelines,
    "tuning": tuning,
    "workers": working,
}


@click.command
@click.argument("parts", nargs=-1, type=click.Choice(sorted({*PARTS, *OFF_SPARK})))
@click.option("--data", type=click.Path(path_type=Path), default=Path(".bench"), help="Where feeds are kept.")
@click.option("--json", "report", type=click.Path(path_type=Path), help="Also write the ratios there.")
@click.option("--peers/--no-peers", default=True, help="With the peers, which take half an hour.")
@click.option("--only", default="", help="Measure only the fast paths whose names contain this text.")
def main(parts: tuple[str, ...], data: Path, report: Path | None, peers: bool, only: str) -> None:
    """Measure PARTS (default: all) and print ratios, a table and JSON."""
    root = data.absolute()
    root.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count() or 2
    chosen = parts or sorted({*PARTS, *OFF_SPARK})
    off_spark = OFF_SPARK | {"fast-paths": partial(fast_paths, only=only)}
    # First: an idle Spark takes memory and cores, too.
    claims = [claim for part in OFF_SPARK if part in chosen for claim in off_spark[part](root, peers)]
    if on_spark := [part for part in chosen if part in PARTS]:
        spark = open_session({"spark.master": f"local[{cores}]", "spark.sql.shuffle.partitions": str(cores)})
        claims += [claim for part in on_spark for claim in PARTS[part](spark, root, peers)]
        spark.stop()
    table = Table(
        "what", "ratio", "has to be", "processor seconds for 100,000 messages", title=f"ratios on {cores} cores"
    )
    for claim in claims:
        table.add_row(claim.what, f"{claim.ratio:.2f}", claim.demand, "\n".join(claim.costs))
    Console().print(table)
    facts = [
        {"what": c.what, "ratio": round(c.ratio, 3), "limit": c.limit, "holds": c.holds, "costs": c.costs}
        for c in claims
    ]
    document = json.dumps({"cores": cores, "ratios": facts}, indent=2, ensure_ascii=False)
    click.echo(document)
    if report is not None:
        report.write_text(document + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
