"""Run the benchmarks of the two engines and print ratios, a table and JSON.

On Spark: same source (Parquet; a whole pipeline reads JSON lines), same sink (Parquet), same number of partitions for
all; the times are Spark's own for each micro-batch, the first ones left out, the median of the rest taken. The message
box: see `benchmarks.box`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
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
from benchmarks.figures import Section, shown_row, write_page
from benchmarks.filters import filtering
from benchmarks.gate import gates
from benchmarks.links import linking
from benchmarks.measure import Claim, identity, measure
from benchmarks.monitored import monitored
from benchmarks.numbers import numbers
from benchmarks.over_http import over_http
from benchmarks.peer import by_group
from benchmarks.pipelines import pipelines
from benchmarks.ports import porting
from benchmarks.regions import claiming
from benchmarks.regions_whole import regions_whole
from benchmarks.stamp import stamping
from benchmarks.tuning import tuning
from benchmarks.volume import memory, sessions, volume
from benchmarks.whole import whole
from benchmarks.workers import working
from seriatim import Standard
from seriatim.spark import resequence
from seriatim.spark.session.builder import open_session

#: How many runs a section of the page is measured in.
_RUNS_OF_PAGE = 5

#: Everything on: time-outs with retries, skipping, late ones delivered, a capacity.
EVERYTHING = Standard(hole_timeout="1h", hole_retries=1, on_hole="skip", late="deliver", capacity=500_000)

MANY = Feed("many", (Part(7, 1_000_000, 100_000),))
SINGLE = Feed("single", (Part(7, 1_000_000, 1),))
SMALL = Feed("small", (Part(16, 1_000, 1_000, displaced=0.05),), files=2)
#: The same after a million groups, which live on.
CROWD = Feed("small-beside", (Part(1, 1_000_000, 1_000_000, prefix="live-", displaced=0), *SMALL.parts), files=2)
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
        costs=(ours.cost, ceiling.cost),
        amount=ours.rate,
    )
    single = measure(spark, root, SINGLE, ordered, "seriatim, one single group")
    yield Claim(
        "one single group ÷ many groups",
        single.rate / ours.rate,
        0.35,
        costs=(single.cost, ours.cost),
        amount=single.rate,
    )
    if peers:
        textbook = measure(spark, root, MANY, by_group, "transformWithState keyed by group, the textbook way")
        yield Claim(
            "Standard with everything on ÷ textbook TWS by group",
            ours.rate / textbook.rate,
            10,
            costs=(ours.cost, textbook.cost),
        )


def small(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """A thousand messages a batch."""
    ceiling = measure(spark, root, SMALL, identity, "identity, 1,000 a batch", skip=4)
    ours = measure(spark, root, SMALL, ordered, "seriatim, 1,000 a batch", skip=4)
    yield Claim(
        "time of a batch of 1,000 ÷ identity",
        ours.median / ceiling.median,
        2.5,
        False,
        (ours.cost, ceiling.cost),
        ours.median,
        "s",
    )
    beside = measure(spark, root, CROWD, ordered, "seriatim, 1,000 a batch beside 1,000,000 groups", skip=5)
    what, costs = "a batch of 1,000 beside a million live groups ÷ without them", (beside.cost, ours.cost)
    yield Claim(f"time of {what}", beside.median / ours.median, 1.3, False, costs, beside.median, "s")
    yield Claim("the same, by processor time", beside.processor_s / ours.processor_s)


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


@dataclass(frozen=True, slots=True)
class _Part:
    """One command of the benchmark, and one section of the page of figures."""

    title: str
    measure: Callable[..., Iterable[Claim]]
    #: It gets a Spark session first.
    on_spark: bool = False


#: In the order of the page. Those without Spark are measured first: an idle Spark takes memory and cores, too.
PARTS = {
    "throughput": _Part("Order on Spark, a million messages a batch", throughput, on_spark=True),
    "small": _Part("Order on Spark, a thousand messages a batch", small, on_spark=True),
    "state": _Part("Order on Spark beside a large state", state, on_spark=True),
    "numbers": _Part("Numbers as producers have them", numbers, on_spark=True),
    "stamp": _Part("Tickets on Spark", stamping, on_spark=True),
    "filters": _Part("Routing on Spark", filtering, on_spark=True),
    "whole": _Part("A whole pipeline", whole, on_spark=True),
    "commands": _Part("A pipeline under an operator's commands", commanding, on_spark=True),
    "box-spark": _Part("From Spark into the box, and back", between, on_spark=True),
    "box": _Part("The message box", boxes),
    "workers": _Part("Workers", working),
    "async": _Part("Coroutines", coroutines),
    "http": _Part("Over HTTP and in SQL", over_http),
    "gate": _Part("Gates", gates),
    "dialogs": _Part("Dialogs", talking),
    "links": _Part("Links between boxes", linking),
    "ports": _Part("Ports in", porting),
    "regions": _Part("Claims of two regions", claiming),
    "regions-whole": _Part("Two regions from end to end", regions_whole),
    "box-size": _Part("A box with much that is done", sizes),
    "box-many": _Part("A box with many groups and queues", many),
    "console": _Part("The console", consoles),
    "monitored": _Part("Metrics", monitored),
    "fast-paths": _Part("Fast paths", fast_paths),
    "pipelines": _Part("Pipelines, this commit beside another", pipelines),
    "volume": _Part("Whole pipelines and small batches, this commit beside another", volume),
    "sessions": _Part("Order on Spark in two kinds of sessions", sessions),
    "memory": _Part("Memory, this commit beside another", memory),
    "tuning": _Part("How many processes and threads", tuning),
}


@click.command
@click.argument("parts", nargs=-1, type=click.Choice(sorted(PARTS)))
@click.option("--data", type=click.Path(path_type=Path), default=Path(".bench"), help="Where feeds are kept.")
@click.option("--json", "report", type=click.Path(path_type=Path), help="Also write the ratios there.")
@click.option("--peers/--no-peers", default=True, help="With the peers, which take half an hour.")
@click.option("--only", default="", help="Measure only the fast paths whose names contain this text.")
@click.option("--runs", type=click.IntRange(1), help="Measure each part this many times (default: 1; with --page: 5).")
@click.option(
    "--page", "is_for_page", is_flag=True, help="Write the sections of PARTS in docs/reference/figures.md anew."
)
def main(
    parts: tuple[str, ...], data: Path, report: Path | None, peers: bool, only: str, runs: int | None, is_for_page: bool
) -> None:
    """Measure PARTS (default: all) and print ratios, a table and JSON."""
    root = data.absolute()
    root.mkdir(parents=True, exist_ok=True)
    runs = runs or (_RUNS_OF_PAGE if is_for_page else 1)
    chosen = sorted(parts or PARTS, key=lambda name: PARTS[name].on_spark)
    cores = os.cpu_count() or 2
    measured: dict[str, Section] = {}
    with ExitStack() as open_here:
        spark = None
        for name in chosen:
            part = PARTS[name]
            measure = partial(part.measure, only=only) if part.measure is fast_paths else part.measure
            if part.on_spark and spark is None:
                spark = open_session({"spark.master": f"local[{cores}]", "spark.sql.shuffle.partitions": str(cores)})
                open_here.callback(spark.stop)
            load = os.getloadavg()[0]
            arguments = (spark, root, peers) if part.on_spark else (root, peers)
            claims = [list(measure(*arguments)) for _ in range(runs)]
            measured[name] = Section.of(part.title, load, claims)
            if is_for_page:  # at once: what comes later may fail
                write_page(measured, [*PARTS])
    Console().print(_table(measured, cores))
    document = json.dumps(
        {"cores": cores, "ratios": [row for section in measured.values() for row in section.rows]},
        indent=2,
        ensure_ascii=False,
    )
    click.echo(document)
    if report is not None:
        report.write_text(document + "\n", encoding="utf-8")


def _table(measured: Mapping[str, Section], cores: int) -> Table:
    table = Table(
        *("what", "ratio", "range", "amount", "has to be", "processor seconds for 100,000 messages"),
        title=f"ratios on {cores} cores",
    )
    for section in measured.values():
        for row in section.rows:
            table.add_row(row["what"], *shown_row(row), "\n".join(row["costs"]))
    return table


if __name__ == "__main__":
    main()
