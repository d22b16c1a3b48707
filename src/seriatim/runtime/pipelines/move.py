"""Convert a stopped checkpoint of layout 2 to the present layout, and a checkpoint to another number of buckets.

Layout 2 had Spark's processing-time timers, and commands as files of text. In Spark's part of the checkpoint three things name
them: the offsets of the last source, the metadata of the operator, and the state variable of its timers. The states
themselves name their layout, and are read by the operator.

The converted part is built beside the former one, of links to the same files; then the two change places, and last
`pipeline.json` says the new layout. So a conversion that was killed is done again by the next one. The former part stays.

To another number of buckets, the groups are read from Spark's state and written into a folder of the checkpoint, and then
`pipeline.json` says the new number. The first batch of the next run takes them over, bucket by bucket.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seriatim.errors import CheckpointMismatch, NotFound
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.pipeline.text.counted import counted
from seriatim.runtime.pipelines.checkpoint import LAYOUT, Checkpoint
from seriatim.runtime.pipelines.run import pipeline_session
from seriatim.spark.control.source import FIRST_OFFSET
from seriatim.spark.deliver.port import write_synced
from seriatim.spark.query import cut_state

__all__ = ["Moved", "move"]

#: The layout that is converted.
_FORMER = 2
_HEAD_LINES = 2
#: How the folders are called in which states of other numbers of buckets lie.
_MOVED_TO = "moved-to-"


@dataclass(frozen=True, slots=True)
class Moved:
    """A conversion.

    Args:
        checkpoint: the folder of the checkpoint.
        layout: the layout that it had.
        former: Spark's part as it was; None: the checkpoint had the present layout.
        former_buckets: the number of buckets that it had.
        buckets: the number that it has now.
    """

    checkpoint: Path
    layout: int
    former: Path | None
    former_buckets: int
    buckets: int

    @property
    def is_moved(self) -> bool:
        """Whether anything was done."""
        return self.former is not None or self.buckets != self.former_buckets


def move(pipeline: Pipeline) -> Moved:
    """Convert the checkpoint of a pipeline to the present layout, and to the number of buckets that the pipeline has.

    Raises:
        UsageError: there is no checkpoint.
        EnvironmentProblem: a run uses it, or it can't be written; or, for another number of buckets, Spark doesn't start.
        CheckpointMismatch: it has another layout, or belongs to another declaration; a batch was begun and not finished, or a file is damaged.
    """
    checkpoint = Checkpoint(pipeline.checkpoint.absolute())
    file = checkpoint.root / "pipeline.json"
    if not file.exists():
        raise NotFound("there is no checkpoint", where=str(checkpoint.root), remedy="seriatim run makes one")
    with checkpoint.held() as lock:
        try:
            identity = json.loads(file.read_bytes())
            layout, buckets = identity["layout"], identity["buckets"]
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointMismatch("the file is damaged", where=str(file), remedy="restore it") from error
        former = _to_present_layout(pipeline, checkpoint, identity)
        wanted = pipeline.buckets or buckets
        if wanted != buckets:
            _to_buckets(pipeline, checkpoint, wanted, lock)
        return Moved(checkpoint.root, layout, former, buckets, wanted)


def _to_present_layout(pipeline: Pipeline, checkpoint: Checkpoint, identity: dict[str, Any]) -> Path | None:
    """Spark's part as it was; None: the layout is the present one."""
    layout = identity["layout"]
    if layout == LAYOUT:
        return None
    if layout != _FORMER:
        raise CheckpointMismatch(
            f"the checkpoint has layout {layout}, and layout {_FORMER} is what can be converted",
            where=str(checkpoint.root),
            remedy="run the version that wrote it, or give the pipeline a new checkpoint",
        )
    former = checkpoint.root / f"query-of-layout-{_FORMER}"
    _undo(checkpoint.query, former)
    _check_finished(checkpoint, "let the version that wrote the checkpoint finish it: seriatim run --once")
    _convert(checkpoint, former, sources=len(pipeline.receive) + 1)
    write_synced(checkpoint.root / "pipeline.json", json.dumps({**identity, "layout": LAYOUT}, indent=2).encode())
    return former


def _check_finished(checkpoint: Checkpoint, remedy: str) -> None:
    if checkpoint.in_flight():
        what = f"batch {checkpoint.last_begun()} was begun and not finished"
        raise CheckpointMismatch(what, where=str(checkpoint.root), remedy=remedy)


def _to_buckets(pipeline: Pipeline, checkpoint: Checkpoint, buckets: int, lock: int) -> None:
    """Cut the state into another number of buckets."""
    known = checkpoint.check_as_it_is(pipeline)
    _check_finished(checkpoint, "finish it with the former number of buckets: seriatim run --once")
    if known.moved is not None:
        raise CheckpointMismatch(
            f"the state isn't in its {counted(known.buckets, 'bucket')} yet to which it was moved before",
            where=str(checkpoint.root),
            remedy="run the pipeline once with that number: seriatim run --once",
        )
    for begun in checkpoint.root.glob(f"{_MOVED_TO}*"):  # by a move that was killed
        shutil.rmtree(begun)
    folder = ""
    if checkpoint.last_begun() >= 0:
        folder = f"{_MOVED_TO}{buckets}"
        made = checkpoint.root.absolute() / folder
        made.mkdir()
        with pipeline_session({**pipeline.spark, **known.splitting}, checkpoint, lock, verbose=False) as session:
            cut_state(session, checkpoint.query, pipeline, layout=known.layout, to=buckets, folder=made)
    checkpoint.note_move(pipeline, buckets, folder)


def _undo(query: Path, former: Path) -> None:
    """Take back a conversion that was killed."""
    if former.exists():
        shutil.rmtree(query, ignore_errors=True)
        former.rename(query)


def _convert(checkpoint: Checkpoint, former: Path, *, sources: int) -> None:
    query, made = checkpoint.query, checkpoint.root / "query-being-converted"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    if query.exists():
        _copy(query, made, query, sources)
    else:
        query.mkdir()
    query.rename(former)
    made.rename(query)
    shutil.rmtree(checkpoint.control, ignore_errors=True)


def _copy(folder: Path, into: Path, query: Path, sources: int) -> None:
    """Links to all files of a folder, and converted copies of those that are converted."""
    for one in sorted(folder.iterdir()):
        place = one.relative_to(query).parts
        if place == ("sources", str(sources - 1)):
            continue  # the log of the former source of commands
        if one.is_dir():
            (into / one.name).mkdir()
            _copy(one, into / one.name, query, sources)
        elif one.name.startswith(".") and one.name.endswith(".crc"):
            name = one.name[1 : -len(".crc")]
            if _conversion((*place[:-1], name), sources) is None:
                _link(one, into / one.name)  # the sum of a file that stays as it is
        elif (converted := _conversion(place, sources)) is not None:
            write_synced(into / one.name, _checked(converted, one))
        else:
            _link(one, into / one.name)


def _link(file: Path, name: Path) -> None:
    """The same file under another name. Spark replaces and deletes files, and changes none."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copy2(file, name)


def _conversion(place: tuple[str, ...], sources: int) -> Callable[[str], str] | None:
    """How the text of a file is converted; None: it stays as it is."""
    match place:
        case ("offsets", name) if name.isdecimal():
            return lambda text: _offsets(text, sources)
        case ("state", _, "_metadata", "v2", name) if name.isdecimal():
            return _metadata
    return None


def _checked(conversion: Callable[[str], str], file: Path) -> bytes:
    try:
        return conversion(file.read_text(encoding="utf-8")).encode()
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointMismatch(
            "the file is damaged, or of another version of Spark", where=str(file), remedy="restore it from a backup"
        ) from error


def _offsets(text: str, sources: int) -> str:
    """The offsets of a batch, the last of them now that of the control source, to the letter as the source gives it."""
    lines = text.split("\n")
    if len(lines) != _HEAD_LINES + sources:
        raise ValueError
    return "\n".join([*lines[:-1], json.dumps(FIRST_OFFSET)])


def _metadata(text: str) -> str:
    """The metadata of an operator, without the processing-time timers that it had."""
    version, told = text.split("\n", 1)
    operator = json.loads(told)
    properties = json.loads(operator["operatorPropertiesJson"])
    if properties["timeMode"] != "ProcessingTime":
        return text
    properties["timeMode"] = "NoTime"
    variables = [one for one in properties["stateVariables"] if one["stateVariableType"] != "TimerState"]
    properties["stateVariables"] = variables
    operator["operatorPropertiesJson"] = json.dumps(properties, separators=(",", ":"))
    return f"{version}\n{json.dumps(operator, separators=(',', ':'))}"
