"""Move a stopped checkpoint to another number of buckets.

The groups are read from Spark's state and written into a folder of the checkpoint, and then `pipeline.json` says the new number. The
first batch of the next run takes them over, bucket by bucket. A move that was killed is done again by the next one.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from seriatim.errors import CheckpointMismatch, NotFound
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.pipeline.text.counted import counted
from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.runtime.pipelines.run import pipeline_session
from seriatim.spark.control.pipeline_place import PipelinePlace
from seriatim.spark.query import cut_state

#: The prefix of the folders with states of other numbers of buckets.
_MOVED_TO = "moved-to-"


@dataclass(frozen=True, slots=True)
class Moved:
    checkpoint: Path
    former_buckets: int
    buckets: int

    @property
    def is_moved(self) -> bool:
        return self.buckets != self.former_buckets


def move(pipeline: Pipeline) -> Moved:
    checkpoint = Checkpoint(pipeline.checkpoint.absolute())
    if not (checkpoint.root / "pipeline.json").exists():
        raise NotFound("there is no checkpoint", where=str(checkpoint.root), remedy="seriatim run makes one")
    with checkpoint.held() as lock:
        buckets = PipelinePlace.of(checkpoint.root, pipeline.name).buckets
        wanted = pipeline.buckets or buckets
        if wanted != buckets:
            _to_buckets(pipeline, checkpoint, wanted, lock)
        return Moved(checkpoint.root, buckets, wanted)


def _to_buckets(pipeline: Pipeline, checkpoint: Checkpoint, buckets: int, lock: int) -> None:
    """Cut the state into another number of buckets."""
    known = checkpoint.check_as_it_is(pipeline)
    if checkpoint.in_flight():
        problem = f"batch {checkpoint.last_begun()} was begun and not finished"
        remedy = "finish it with the former number of buckets: seriatim run FILE --once"
        raise CheckpointMismatch(problem, where=str(checkpoint.root), remedy=remedy)
    if known.moved is not None:
        raise CheckpointMismatch(
            f"the state isn't in its {counted(known.buckets, 'bucket')} yet to which it was moved before",
            where=str(checkpoint.root),
            remedy="run the pipeline once with that number: seriatim run FILE --once",
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
