"""Put messages of a pipeline back that it has set aside: unchanged, or edited.

A message goes back through the control log, to the destinations that want it, and is judged there as a new arrival. The stages before the
order run here: its body is read again, routed, and processed, if it hadn't passed them. Its command has an id that is made of the message
alone. So it is put back once, however often that is requested, and whatever is killed meanwhile.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from threading import Event as Pause
from typing import Any

from seriatim.errors import UsageError, shown
from seriatim.kernel.values.outcome import REASONS
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.properties import PARTS
from seriatim.runtime.pipelines.passage import Passage, PutBackRefusal, Request
from seriatim.runtime.pipelines.set_aside import DISPOSITIONS, SetAside, SetAsideFilter, read_set_aside
from seriatim.spark.control.commands import RESUBMIT, Command, CommandResult
from seriatim.spark.control.log import COMMAND
from seriatim.spark.control.pipeline_place import PipelinePlace
from seriatim.spark.state.checkpoint_files import writing

#: The dispositions of messages that are put back unless the caller says which.
USUAL = ("late", "invalid", "rejected")
#: The most messages, and roughly the most bytes, in one file of the control log.
_MOST_ROWS, _MOST_BYTES = 1_000, 4 * 2**20
#: A larger body doesn't fit through the control log.
LARGEST_BODY = 64 * 2**20
_LOOK_S = 0.1
#: The fields of a line that can't be changed: they identify the message, and have its pipeline's decision.
_FIXED = ("destination", "disposition", "reason", "message_id", "location", "ticket", *PARTS, "incarnation")
_DERIVED = ("group", "sequence")
_BODIES = ("body", "body_base64")
_MOST_TOLD = 10
#: How an output of the user's code is numbered, if a message has several.
_NUMBERED = re.compile(r"\.\d+$")
_OF_THE_ORDER = frozenset(REASONS.values())


@dataclass(frozen=True, slots=True)
class Row:
    """A message that was set aside, perhaps edited."""

    message: SetAside
    fields: Mapping[str, Any]
    edited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PutBack:
    """The result for a message that was to be put back.

    Args:
        destination: the destination to which it goes; None: it goes nowhere.
        group: its group's key there.
        sequence: its number there, as its producer wrote it.
        message_id: its id.
        disposition: why it was set aside.
        edited: the edited fields.
        result: ``done``; ``queued``: the next batch takes it; ``repeated``: it was put back before; ``refused``; of a dry run
            ``would``.
        became: its disposition now, ``released`` or ``held`` among them; None: not known.
        why: why it was refused, or the reason for its disposition now.
        operation_id: the id of its command.
        batch: the batch that took it.
    """

    destination: str | None
    group: str | None
    sequence: Any
    message_id: str
    disposition: str
    edited: tuple[str, ...]
    result: str
    became: str | None = None
    why: str | None = None
    operation_id: str | None = None
    batch: int | None = None


def put_back_in(place: PipelinePlace, pipeline: Pipeline) -> Callable[[SetAside], int | None]:
    """A function that tells in which batch a message that was set aside was put back; None: it wasn't."""
    batches = {
        one.id: one.batch for one in place.operator_log.answers() if one.verb == RESUBMIT and one.result == "done"
    }
    names = [route.queue.name for route in pipeline.route]

    def batch_of(message: SetAside) -> int | None:
        if not batches:
            return None
        ids = (_id_of(place, Row(message, message.fields), name) for name in names)
        return next((batches[id_] for id_ in ids if id_ in batches), None)

    return batch_of


def rows_set_aside(
    folder: Path,
    wanted: SetAsideFilter,
    *,
    message_ids: Sequence[str] = (),
    dispositions: Sequence[str] = (),
    destination: str | None = None,
) -> list[Row]:
    chosen = dispositions or (DISPOSITIONS if message_ids else USUAL)
    rows = [
        Row(message, message.fields)
        for message in read_set_aside(folder, wanted=wanted)
        if message.disposition in chosen
        and destination in (None, message.destination)
        and (not message_ids or message.message_id in message_ids)
    ]
    if missing := set(message_ids) - {row.message.message_id for row in rows}:
        raise UsageError(
            f"message {shown(min(missing))} is not set aside as you say",
            where=str(folder),
            remedy="see seriatim set-aside FILE; an unrouted message was never in a destination",
        )
    return rows


def edited_rows(folder: Path, lines: Iterable[bytes], name: str) -> list[Row]:
    """Read lines of ``seriatim set-aside --json``, edited or not."""
    known: dict[tuple[Any, ...], Row] = {}
    for message in read_set_aside(folder):
        known[_place(message.fields)] = Row(message, message.fields)  # the latest, if it was set aside more than once
    rows: dict[tuple[Any, ...], Row] = {}
    faults: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _edited(line, known, rows)
            rows[_place(row.message.fields)] = row
        except UsageError as error:
            faults.append(f"{name}:{number}: {error.what}" + (f" ({error.remedy})" if error.remedy else ""))
    if faults:
        more = f"\n… and {len(faults) - _MOST_TOLD:,} more" if len(faults) > _MOST_TOLD else ""
        raise UsageError("\n".join(faults[:_MOST_TOLD]) + more, remedy="nothing was done")
    return list(rows.values())


def resubmit(
    place: PipelinePlace,
    pipeline: Pipeline,
    rows: Sequence[Row],
    *,
    actor: str,
    reason: str,
    dry_run: bool = False,
    wait: float = 10.0,
) -> list[PutBack]:
    """Put messages back that a pipeline has set aside, each once."""
    place.check_log()
    passage = Passage(pipeline)
    done: list[PutBack] = []
    commands: dict[str, Command] = {}
    shown_as: dict[str, PutBack] = {}
    requests = [Request(row.fields, _is_anew(row), row.edited, _only(row, pipeline)) for row in rows]
    for row, ways in zip(rows, passage.ways(requests), strict=True):
        why = _too_large(row) or _one_of_several(row, pipeline)
        for entry in [PutBackRefusal(why)] if why else ways:
            if isinstance(entry, PutBackRefusal):
                done.append(_told(row, "refused", destination=row.message.destination, why=str(entry)))
                continue
            id_ = _id_of(place, row, entry.destination)
            if id_ in commands:
                continue  # two destinations have set it aside, and both ways lead there
            arguments = {
                "row": entry.row,
                "sequence": entry.sequence,
                "size": entry.size,
                "time": entry.time,
                **entry.numbers,
                **passage.declared(entry),
                "message_id": row.message.message_id,
                "disposition": row.message.disposition,
                **({"edited": list(row.edited)} if row.edited else {}),
            }
            commands[id_] = Command(RESUBMIT, entry.destination, entry.key, actor, reason, arguments, id=id_)
            shown_as[id_] = replace(
                _told(row, "would", destination=entry.destination),
                group=entry.group,
                sequence=entry.shown,
                operation_id=id_,
            )
    if dry_run:
        answered, _ = _known(place, set(commands))
        return [*done, *(_answered(row, answered.get(id_), again=True) for id_, row in shown_as.items())]
    answers = _written(place, commands, wait)
    return [*done, *(_answered(row, *answers[id_]) for id_, row in shown_as.items())]


def _written(
    place: PipelinePlace, commands: Mapping[str, Command], wait: float
) -> dict[str, tuple[CommandResult | None, bool]]:
    """Write the missing commands, and wait for their answers; return for each its answer, and whether it was written before."""
    with _alone(place):
        answered, queued = _known(place, set(commands))
        seen = place.operator_log.last_batch()
        new = [command for id_, command in commands.items() if id_ not in answered and id_ not in queued]
        for portion in _portions(new):
            place.control.append(portion)
    before = set(answered)
    deadline, pause = time.monotonic() + (wait if place.is_running() else 0.0), Pause()
    while len(answered) < len(commands) and time.monotonic() < deadline:
        pause.wait(_LOOK_S)
        answered |= {answer.id: answer for answer in place.operator_log.answers(after=seen) if answer.id in commands}
    return {id_: (answered.get(id_), id_ in before) for id_ in commands}


@contextmanager
def _alone(place: PipelinePlace) -> Iterator[None]:
    """Let one caller at a time look for written commands, and write the rest."""
    with writing("the checkpoint", place.root):
        lock = os.open(place.root / "resubmit.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _known(place: PipelinePlace, ids: set[str]) -> tuple[dict[str, CommandResult], set[str]]:
    # First the waiting commands: the answers that arrive meanwhile are found next.
    queued = {entry["id"] for entry in place.not_obeyed() if entry["kind"] == COMMAND and entry["id"] in ids}
    answered = {
        answer.id: answer for answer in place.operator_log.answers() if answer.id in ids and answer.result == "done"
    }
    return answered, queued


def _portions(commands: Iterable[Command]) -> Iterator[list[dict[str, Any]]]:
    portion: list[dict[str, Any]] = []
    size = 0
    for command in commands:
        entry = command.entry()
        portion.append(entry)
        size += len(entry["arguments"]["row"].get("body") or "") + 1_000
        if len(portion) >= _MOST_ROWS or size >= _MOST_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _answered(shown: PutBack, answer: CommandResult | None, again: bool) -> PutBack:
    if answer is None:
        return shown if again else replace(shown, result="queued")
    result = "repeated" if again else answer.result
    batch = None if answer.batch < 0 else answer.batch
    why = ": ".join(filter(None, (answer.why, answer.remedy)))
    return replace(shown, result=result, became=answer.after or None, why=why or None, batch=batch)


def _told(row: Row, result: str, *, destination: str | None, why: str | None = None) -> PutBack:
    message = row.message
    return PutBack(
        destination,
        message.group,
        message.sequence,
        message.message_id,
        message.disposition,
        row.edited,
        result,
        why=why,
    )


def _id_of(place: PipelinePlace, row: Row, destination: str) -> str:
    """Return the id of the command that puts a message back: made of the message's identity."""
    message = row.message
    which = (place.id, message.batch, message.message_id, message.number, destination)
    return blake2b(json.dumps(which).encode(), digest_size=16).hexdigest()


def _place(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(fields.get(name) for name in ("destination", "message_id", "disposition"))


def _edited(line: bytes, known: Mapping[tuple[Any, ...], Row], before: Iterable[tuple[Any, ...]]) -> Row:
    """Return the message of a line. `before`: the messages of earlier lines."""
    fields, row = _read(line, known)
    fields.pop("put_back", None)  # which lists add
    if _place(row.message.fields) in before:
        raise UsageError("the message is in the file twice", remedy="leave one of the lines")
    written = json.loads(json.dumps(row.message.fields), parse_float=Decimal)
    for name in fields:
        if name not in written and name not in _BODIES:
            raise UsageError(f"there is no field {shown(name)}", remedy=likely(name, list(written)) or "leave it out")
    changed = tuple(name for name in fields if fields[name] != written.get(name))
    for name in changed:
        if name in _FIXED:
            raise UsageError(f"{name} can't be edited", remedy="leave it as it was listed")
        if name in _DERIVED:
            remedy = f"edit the property by which the destination has its {name}"
            raise UsageError(f"{name} can't be edited", remedy=remedy)
    _check_bodies(fields)
    return replace(row, fields={**written, **fields}, edited=changed)


def _read(line: bytes, known: Mapping[tuple[Any, ...], Row]) -> tuple[dict[str, Any], Row]:
    try:
        fields = json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the line is not JSON: {error}", remedy="one object in each line") from None
    if not isinstance(fields, dict):
        raise UsageError("the line is no object", remedy="one message in each line")
    try:
        row = known.get(_place(fields))
    except TypeError:  # a value that has no hash
        row = None
    if row is None:
        name = shown(fields.get("message_id"))
        raise UsageError(
            f"message {name} is not set aside here with that destination and disposition",
            remedy="leave these fields as they were listed",
        )
    return fields, row


def _check_bodies(fields: Mapping[str, Any]) -> None:
    if all(fields.get(name) is not None for name in _BODIES):
        raise UsageError("the message has two bodies", remedy="leave body or body_base64")
    for name in _BODIES:
        if not isinstance(fields.get(name), str | None):
            raise UsageError(f"{name} is {shown(fields[name])}, and no text", remedy="write it as text, in quotes")
    try:
        base64.b64decode(fields.get("body_base64") or "", validate=True)
    except ValueError:
        raise UsageError("body_base64 is not Base64", remedy="or write the text as body") from None


def _is_anew(row: Row) -> bool:
    """Return whether a message hasn't passed the stages before the order: it was invalid there."""
    return row.message.disposition == "invalid" and row.message.reason not in _OF_THE_ORDER


def _only(row: Row, pipeline: Pipeline) -> str | None:
    """Return the one destination of a message; None: it is routed again."""
    if not _is_anew(row) or row.message.destination is None:
        return row.message.destination
    own = next((route.process for route in pipeline.route if route.queue.name == row.message.destination), None)
    failed_there = own is not None and row.message.reason.startswith(f"process {own.function}:")
    before = pipeline.process is not None and pipeline.process.function == (own.function if own else None)
    return row.message.destination if failed_there and not before else None


def _too_large(row: Row) -> str:
    size = len(row.fields.get("body") or row.fields.get("body_base64") or "")
    return (
        f"its body is larger than {LARGEST_BODY >> 20} MiB: put it into the source again" if size > LARGEST_BODY else ""
    )


def _one_of_several(row: Row, pipeline: Pipeline) -> str:
    """Return why one of several outputs of the user's code can't go back, since together they are one message of the order; empty if it
    isn't one.
    """
    code = pipeline.process is not None or any(route.process is not None for route in pipeline.route)
    part = row.fields.get("part")
    name = row.message.message_id.removesuffix(f".{part}") if part is not None else row.message.message_id
    several = code and not _is_anew(row) and _NUMBERED.search(name) is not None
    return "it is one of several outputs of the user's code, which only leave together" if several else ""
