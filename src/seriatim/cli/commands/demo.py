"""``seriatim demo``: the whole story, through what users call: a pipeline from files to files, and a message box."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table as Lines

from seriatim.box.box import MessageBox
from seriatim.cli.commands.demo_box import BAD_GROUP, QUEUE, STILL_GROUP, BoxStory, box_story, still_working
from seriatim.cli.commands.run import SUMMARY
from seriatim.cli.options.option import option
from seriatim.cli.options.own_name import own_name
from seriatim.cli.shown.show import REASONS, Display, accounts_table, line_of
from seriatim.cli.shown.table import Column, Table, as_json_line, json_only, json_option, lines_of
from seriatim.errors import EnvironmentProblem, InvariantBroken, UsageError
from seriatim.extras import is_chosen, need
from seriatim.pipeline.files import pipeline_file
from seriatim.runtime.pipelines.demo_feed import HEALED, HOLE_TIMEOUT_S, SKIPPED, DemoFeed, generate

if TYPE_CHECKING:
    from seriatim.runtime.pipelines.progress import Progress, RunSummary

_BOX: Table[BoxStory] = Table("A demonstration of the message box", row=BoxStory)
DEMO = SUMMARY.extended(
    "A demonstration",
    Column("box", None, rows=_BOX, meaning="what came of its message box"),
    first=[
        Column("ok", None, kind="bool", meaning="true"),
        *json_only(
            inversions_before="how often an update arrived directly after a higher one of its customer",
            inversions_after="the same among the delivered updates",
            delivered="the number of delivered rows",
        ),
    ],
)

_FILES = 8
#: When the first of them was written, as far as Spark is told; the others follow by a second.
_WRITTEN = 1_700_000_000

_PIPELINE = """\
# Written by `seriatim demo`. Time is the feed's own (`clock: event`), so a day's history takes seconds.
name: demo
checkpoint: {folder}/checkpoint
clock: event
time: at
receive:
  - location: shop
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 2}}}}
    promote:
      type: $.kind
      at: {{path: $.at, type: timestamp}}
      customer_id: $.customer.id
      version: {{path: $.version, type: long}}
route:
  - to: orders
    resequence: {{policy: standard, group: customer_id, sequence: version, hole_timeout: {timeout}s, on_hole: skip}}
    deliver: {{format: json, path: {folder}/out/orders}}
"""


@click.command()
@option("--messages", "Number of messages.", type=click.IntRange(200, 5_000_000), default=20_000)
@option("--seed", "Seed of the generator; the same seed gives the same feed.", type=int, default=7)
@option("--keep", "Work in this new folder and keep its files.", type=click.Path(path_type=Path))
@json_option("Print one JSON object instead of the story.", DEMO)
def demo(*, messages: int, seed: int, keep: Path | None, json_: bool) -> None:
    """Put a scrambled feed back in order, and mend a handler's failure.

    First a pipeline: generates a feed of order updates, runs a pipeline over it, reads the delivered files with pyarrow
    and checks them against the feed. Then a message box: a handler fails at one order, its customer's group stops, and
    is mended. Takes about a minute. In a terminal the console then shows the box in a browser, until Ctrl-C.
    """
    need("spark")
    need("embedded")
    console = Console(highlight=False, quiet=json_)
    console.print(f"[bold]seriatim demo[/]: a pipeline and a message box, in about a minute. Feed of seed {seed}:")
    began = monotonic()
    with _folder(keep) as folder:
        feed = generate(messages, seed)
        _write(folder, feed)
        console.print(
            f"[bold]{len(feed.lines):,} rows with order updates[/] of {len(feed.arrived):,} customers: scrambled, "
            f"{feed.repeated:,} of them sent twice, {feed.broken} rows that are no messages, "
            "one number that comes late and one that comes too late.\n"
        )
        summary = _run(folder / "pipeline.yaml", len(feed.lines), quiet=json_)
        delivered = _delivered(folder / "out" / "orders")
        verdict = _judge(feed, delivered, summary)
        if not json_:
            _before_and_after(console, feed, delivered)
            _numbers(console, verdict, summary)
        serves = not json_ and sys.stdin.isatty() and sys.stdout.isatty() and is_chosen("console")
        told = box_story(folder, console, partial(_serve, console, began) if serves else None)
        if json_:
            click.echo(as_json_line(DEMO.object_of(summary, ok=True, box=told, **asdict(verdict))))
            return
        if not serves:
            console.print(f"\nThat took {monotonic() - began:.0f} s.")
        _what_next(console, keep)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="seriatim-demo-") as folder:
            yield Path(folder)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError(f"{keep} exists already", where="--keep", remedy="name a new folder")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.absolute()  # what is in it is found from anywhere


def _write(folder: Path, feed: DemoFeed) -> None:
    (folder / "in").mkdir()
    size = -(-len(feed.lines) // _FILES)
    for number in range(_FILES):
        lines = feed.lines[number * size : (number + 1) * size]
        path = folder / "in" / f"updates-{number}.json"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        # Spark reads files by the time of their last change: written at once, two may have the same.
        os.utime(path, (_WRITTEN + number, _WRITTEN + number))
    text = _PIPELINE.format(folder=json.dumps(str(folder))[1:-1], timeout=HOLE_TIMEOUT_S)
    (folder / "pipeline.yaml").write_text(text, encoding="utf-8")


def _run(path: Path, rows: int, *, quiet: bool) -> RunSummary:
    pipeline = pipeline_file.load(path)
    from seriatim.runtime.pipelines.run import run  # noqa: PLC0415 - Spark is slow to import

    console = Console(stderr=True, highlight=False)
    if quiet or not console.is_terminal:
        with Display("demo", quiet=quiet) as display:
            return run(pipeline, finish=True, progress=display.show)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting Spark", total=rows)

        def show(progress: Progress) -> None:
            bar.update(task, advance=progress.routing.received, description=line_of(progress))

        return run(pipeline, finish=True, progress=show)


def _delivered(folder: Path) -> dict[str, list[int]]:
    """Per customer the numbers in the order in which a reader of the files gets them."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import json as reader  # noqa: PLC0415

    # File by file and without threads: pyarrow's scan of many JSON files at once can wait for itself for ever.
    options = reader.ReadOptions(use_threads=False)
    table = pa.concat_tables(
        reader.read_json(file, options).select(["group", "sequence"]) for file in sorted(folder.glob("batch=*/part-*"))
    )
    found: dict[str, list[int]] = {}
    for group, sequence in zip(table["group"].to_pylist(), table["sequence"].to_pylist(), strict=True):
        found.setdefault(group, []).append(sequence)
    return found


@dataclass(frozen=True, slots=True)
class _Verdict:
    #: The number of updates that arrived directly after a higher update of their customer.
    inversions_before: int
    inversions_after: int
    delivered: int


def _judge(feed: DemoFeed, delivered: Mapping[str, list[int]], summary: RunSummary) -> _Verdict:
    wanted = feed.delivered
    wrong = [
        customer for customer in wanted.keys() | delivered.keys() if wanted.get(customer) != delivered.get(customer)
    ]
    if wrong:
        one = min(wrong)
        raise InvariantBroken(
            f"{len(wrong)} customers are wrong, such as {one}: {delivered.get(one)}, not {wanted.get(one)}"
        )
    (account,) = summary.accounts
    truth = Counter(late=1, duplicate=feed.repeated, invalid=feed.broken, held=0)
    found = Counter(late=account.late, duplicate=account.duplicate, invalid=account.invalid, held=account.held)
    if truth != found:
        raise InvariantBroken(f"{dict(found)} were set aside, not {dict(truth)}")
    return _Verdict(
        _inversions(feed.arrived), _inversions(delivered), sum(len(numbers) for numbers in delivered.values())
    )


def _inversions(numbers: Mapping[str, tuple[int, ...] | list[int]]) -> int:
    return sum(later < earlier for one in numbers.values() for earlier, later in pairwise(one))


def _before_and_after(console: Console, feed: DemoFeed, delivered: Mapping[str, list[int]]) -> None:
    ordinary = max(delivered, key=lambda one: (_inversions({one: feed.arrived[one][:14]}), one))
    notes = {ordinary: "scrambled", HEALED: "its hole healed in time", SKIPPED: "its hole was skipped"}
    table = Lines(box=None, pad_edge=False, header_style="bold")
    for column in ("customer", "", "updates"):
        table.add_column(column, no_wrap=True)
    for customer, note in notes.items():
        table.add_row(customer, "arrived", _shown(feed.arrived[customer]))
        table.add_row(f"[dim]{note}[/]", "delivered", f"[green]{_shown(delivered[customer])}[/]")
    console.print(table)


def _shown(numbers: tuple[int, ...] | list[int]) -> str:
    return " ".join(map(str, numbers[:14])) + (" …" if len(numbers) > 14 else "")


def _numbers(console: Console, verdict: _Verdict, summary: RunSummary) -> None:
    console.print(
        f"\nUpdates that came after a higher one of their customer: {verdict.inversions_before:,} before, "
        f"[green]{verdict.inversions_after} after[/]. Read back with pyarrow: {verdict.delivered:,} rows, each once.\n"
    )
    accounts_table(summary.accounts, console)
    console.print("\nWhat was not released is kept, with the reason:\n")
    for line in lines_of(REASONS.without("destination"), summary.reasons):
        console.print(f"  {line}", markup=False, soft_wrap=True)


def _serve(console: Console, began: float, box: MessageBox) -> None:
    # The faces don't import each other: this one starts the other by its name, as it would start a program.
    serving = import_module("seriatim.console.serving")
    with still_working(box), serving.opened(box.dsn, box.schema, reads_only=False) as shown:
        try:
            server = serving.server_of(shown, listen="127.0.0.1:8470")
        except EnvironmentProblem:  # another program listens there
            server = serving.server_of(shown, listen="127.0.0.1:0")
        console.print(
            f"\nThat took {monotonic() - began:.0f} s. [bold]The console[/] shows this box in a browser. {STILL_GROUP} stands still "
            f"again: find out why, and mend it.\n\n  [bold]{server.opens_at}[/]  (Ctrl-C stops it)",
            soft_wrap=True,
        )
        server.serve_until_stopped()


def _what_next(console: Console, keep: Path | None) -> None:
    name = own_name()
    hints = {
        f"{name} demo --keep demo": "the same, and the files stay to be looked at",
        f"(cd demo && {own_name(absolute=True)} console)": "then: its message box in a browser, until Ctrl-C",
    }
    if keep is not None:
        folder = shlex.quote(str(keep))
        there = f"cd {folder} && {own_name(absolute=True)}"
        hints = {
            f"cat {folder}/out/orders/*/*": "what was delivered, in order",
            f"{name} set-aside {folder}/pipeline.yaml": "what was not released, and why",
            f"cp {folder}/pipeline.yaml my.yaml": f"a pipeline file to start from: {name} check my.yaml",
            f"({there} console)": "the message box in a browser, until Ctrl-C",
            f"({there} queues)": "the message box, whose server starts with its first user",
            f"({there} trace --group {BAD_GROUP} --queue {QUEUE})": "what happened to the customer whose order failed",
        }
    console.print("\n[bold]What next[/]")
    for command, use in hints.items():
        console.print(f"  [bold]{command}[/]\n      {use}", soft_wrap=True)
