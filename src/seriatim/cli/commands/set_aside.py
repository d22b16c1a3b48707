"""``seriatim set-aside``: list the messages of a pipeline that were not released, with reasons, and put them back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import options_of
from seriatim.cli.options.option import flag, option
from seriatim.cli.options.why import Why, confirmed, exit_if, says_why
from seriatim.cli.shown.show import plain_sequence
from seriatim.cli.shown.table import Column, Table, json_option, lines_of, print_object, tell
from seriatim.errors import UsageError
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.pipeline.files import pipeline_file
from seriatim.pipeline.text.counted import counted
from seriatim.runtime.pipelines.set_aside import DISPOSITIONS, SetAside, SetAsideFilter, read_set_aside, reason_of

if TYPE_CHECKING:
    from seriatim.runtime.pipelines.resubmit import PutBack

#: How many people see unless they say.
_LIMIT = 100

#: As the pipeline has written it.
WRITTEN: Table[dict[str, Any]] = Table(
    "A message that a pipeline did not release",
    Column("destination", meaning="the destination; null: it has none"),
    Column("disposition", meaning="`late`, `duplicate`, `invalid`, `rejected`, `dead` or `unrouted`"),
    Column("reason", shown=reason_of, after="sequence", meaning="the reason; null: no `where` was true"),
    Column("message_id", "message", after="sequence", meaning="its id"),
    Column("type", meaning="its type"),
    Column("location", meaning="the location that received it"),
    Column("ticket", None, meaning="its `location`, `epoch` and `number`; null: it has none"),
    Column("group", meaning="the group's key"),
    Column(
        "sequence",
        shown=lambda row: plain_sequence(row["sequence"]),
        meaning="its position in its group, as its producer numbered it",
    ),
    Column("body", None, meaning="its body, if it is UTF-8"),
    Column("body_base64", None, meaning="its body in Base64, if it is not UTF-8"),
    Column(
        "put_back",
        shown=lambda row: f"in batch {row['put_back']}" if "put_back" in row else None,
        after="reason",
        optional=True,
        meaning="the batch in which it was put back, if it was",
    ),
    more="the properties of the pipeline, by their names",
)
_SHOWN = WRITTEN.without("type", "location")
PUT_BACK: Table[PutBack] = Table("A message that was to be put back", row="seriatim.runtime.pipelines.resubmit:PutBack")
RESUBMITTED: Table[dict[str, object]] = Table(
    "The result for messages that a pipeline takes back",
    Column("dry_run", None, kind="bool", meaning="true: nothing was done"),
    Column("messages", None, rows=PUT_BACK, meaning="each message, once for each destination to which it goes"),
)

set_aside = Commands("set-aside")


@set_aside.command("list")
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@options_of(SetAsideFilter)
@json_option("Print one JSON object per message, with its body.", WRITTEN)
@option("--limit", f"List at most this many (default: {_LIMIT}; all as JSON).", type=click.IntRange(1))
def _list(file_: Path, *, json_: bool, limit: int | None, **given: Any) -> None:
    """List messages of a pipeline that were not released, with reasons. `seriatim set-aside FILE` does the same.

    Reads the set-aside folder of the pipeline in FILE: messages that are late, duplicate, invalid, rejected
    or dead, oldest first. Held messages are not among them: they are not decided yet.
    """
    pipeline = pipeline_file.load(file_)
    from seriatim.runtime.pipelines.checkpoint import Checkpoint  # noqa: PLC0415 - imports Spark, which is slow

    folder = pipeline.set_aside or Checkpoint(pipeline.checkpoint).set_aside
    wanted = SetAsideFilter(**given)
    counts = printed_rows(_SHOWN, folder, wanted, json_=json_, limit=limit, put_back=_put_back_in(pipeline))
    if not json_:
        total = ", ".join(f"{counts[one]:,} {one}" for one in DISPOSITIONS if counts[one])
        none = "nothing is set aside" if wanted == SetAsideFilter() else "nothing of this is set aside"
        click.echo(total or f"{none} in {folder}")


def _put_back_in(pipeline: Pipeline) -> Callable[[SetAside], int | None]:
    """What tells in which batch a message was put back; where nothing has run, none was."""
    from seriatim.runtime.pipelines import resubmit as runtime  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.spark.control.pipeline_place import PipelinePlace  # noqa: PLC0415

    if not (pipeline.checkpoint / "pipeline.json").exists():
        return lambda _: None
    return runtime.put_back_in(PipelinePlace.of(pipeline.checkpoint.absolute(), pipeline.name), pipeline)


@set_aside.command("resubmit")
@click.argument("pipeline", metavar="NAME_OR_FILE")
@click.argument("message_ids", metavar="[ID…]", nargs=-1)
@flag("--all", "all_", "All messages that match the options.")
@option(
    "--edits",
    "The messages of a file, each with its edits: lines as set-aside prints them with --json; - is standard input.",
    type=click.File("rb"),
    metavar="FILE",
)
@option(
    "--disposition",
    "Only messages with this disposition (with --all: late, invalid and rejected ones, unless you say).",
    multiple=True,
    type=click.Choice(DISPOSITIONS),
)
@option("--destination", "Only messages that this destination set aside.", metavar="NAME")
@options_of(SetAsideFilter, without=("disposition", "reason"))
@option("--why", "text", "Only messages with this text in their reason.", metavar="TEXT")
@flag("--dry-run", "Change nothing; list the messages, and where they would go.")
@flag("--yes", "Do not ask for confirmation with --all.")
@says_why
@json_option("Print one JSON object.", RESUBMITTED)
def _resubmit(
    pipeline: str,
    message_ids: tuple[str, ...],
    *,
    all_: bool,
    edits: IO[bytes] | None,
    disposition: tuple[str, ...],
    destination: str | None,
    text: str | None,
    dry_run: bool,
    yes: bool,
    why: Why,
    json_: bool,
    **chosen: Any,
) -> None:
    """Put messages back that a pipeline has set aside, as they are or edited.

    A message is judged as one that arrives now. One whose place has passed leaves at once, behind all that has left, and flagged as
    late. An invalid message is read, routed and worked on once more, by the pipeline file as it is now. A message is put back once:
    a second call says that it was done. Without a run the next run does it.
    """
    if (edits is not None) + all_ + bool(message_ids) != 1:
        raise UsageError("name messages, or --all, or --edits", remedy="one of the three")
    narrowed = (destination, text, *disposition, *(value for value in chosen.values() if value is not None))
    if edits is not None and any(narrowed):
        raise UsageError("--edits has the messages", remedy="leave the other options out")
    from seriatim.operations.pipelines.found import find  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.runtime.pipelines import resubmit as runtime  # noqa: PLC0415

    found = find(pipeline)
    folder = found.declared.set_aside or found.place.root / "set-aside"
    if edits is not None:
        rows = runtime.edited_rows(folder, edits, str(getattr(edits, "name", "-")))
    else:
        wanted = SetAsideFilter(reason=text, **chosen)
        rows = runtime.rows_set_aside(
            folder, wanted, message_ids=message_ids, dispositions=disposition, destination=destination
        )
    if dry_run:
        done = runtime.resubmit(found.place, found.declared, rows, actor="dry run", reason="a dry run", dry_run=True)
    else:
        if all_ and rows:
            confirmed(f"put {counted(len(rows), 'message')} back?", yes=yes)
        who: dict[str, Any] = why() if rows else {"actor": "nobody", "reason": "nothing"}
        done = runtime.resubmit(found.place, found.declared, rows, **who)
    if json_:
        print_object(RESUBMITTED, {"dry_run": dry_run, "messages": done})
    else:
        _tell(done, dry_run=dry_run)
    exit_if(any(one.result == "refused" for one in done))


def _tell(done: Sequence[PutBack], *, dry_run: bool) -> None:
    tell(*map(_line, done))
    counts = Counter(one.result for one in done)
    words = {"would": "would go back", "done": "put back", "queued": "queued", "repeated": "put back before"}
    told = [f"{counts[result]:,} {word}" for result, word in {**words, "refused": "refused"}.items() if counts[result]]
    click.echo(
        ", ".join(told) if told else f"there is nothing to put back{', so nothing would be done' if dry_run else ''}"
    )


def _line(one: PutBack) -> str:
    place = f"{one.destination or 'no destination'}, {one.message_id}"
    edited = f", edited: {', '.join(one.edited)}" if one.edited else ""
    match one.result:
        case "refused":
            return f"{place}: refused, {one.why}"
        case "repeated":
            return f"{place}: was put back before{'' if one.batch is None else f', in batch {one.batch}'}"
        case "would" | "queued":
            word = "would go back" if one.result == "would" else "queued, the next batch takes it"
            group = "" if one.group is None else f", group {one.group}"
            return f"{place}{group}: {one.disposition}, {word}{edited}"
    why = f" ({one.why})" if one.why else ""
    return f"{place}: {one.disposition} → {one.became}{why}{edited}"


def printed_rows(
    table: Table[dict[str, Any]], folder: Path, wanted: SetAsideFilter, *, json_: bool, limit: int | None,
    put_back: Callable[[SetAside], int | None] = lambda _: None,
) -> Counter[str]:  # fmt: skip
    """Print messages of a folder, for people below headings; how many there are in all, by disposition."""
    most = _LIMIT if limit is None and not json_ else limit
    counts: Counter[str] = Counter()
    shown: list[dict[str, Any]] = []
    for place, message in enumerate(read_set_aside(folder, wanted=wanted)):
        counts[message.disposition] += 1
        if most is not None and place >= most:
            continue
        batch = put_back(message)
        row = message.fields if batch is None else message.fields | {"put_back": batch}
        if json_:
            click.echo(json.dumps(table.object_of(row), ensure_ascii=False))
        else:
            shown.append(row)
    if shown:
        tell(*lines_of(table, shown))
    if not json_ and counts.total() > len(shown):
        click.echo(f"stopped at {len(shown):,} of {counts.total():,}: --limit N lists more", err=True)
    return counts
