"""`run_pipeline`: run a pipeline file over some rows, in a test."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from seriatim.errors import UsageError
from seriatim.pipeline.declared.pipeline import DROP, Deliver, Pipeline, Receive
from seriatim.pipeline.files import pipeline_file
from seriatim.pipeline.files.source import FILE_OPTIONS
from seriatim.testing.feed import Feed, Message, faulty_feed

if TYPE_CHECKING:
    from seriatim.runtime.pipelines.progress import HeldGroup, RunSummary
    from seriatim.runtime.pipelines.set_aside import SetAside

__all__ = ["PipelineResult", "run_pipeline"]

#: Rows of a location: mappings, or lines of text, or a `Feed`.
Rows = Feed | Iterable[Message]
_SUFFIXES = {"json": ".json", "csv": ".csv", "text": ".txt", "xml": ".xml", "parquet": ".parquet"}
#: Options with which a message is a file.
_BY_FILE = frozenset({"multiline", "wholetext"})


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The results of the rows that a pipeline got in a test.

    Args:
        released: by destination the delivered rows, by their columns; those of a group in order.
        set_aside: the messages that were not released, each with its disposition and its reason.
        held: the groups that hold messages at the end, and what each waits for; of more than ten those that have waited longest.
        summary: the account of the run, as `seriatim run` prints it.
    """

    released: Mapping[str, list[dict[str, Any]]]
    set_aside: list[SetAside]
    held: tuple[HeldGroup, ...]
    summary: RunSummary


def run_pipeline(
    file: str | Path,
    rows: Rows | Mapping[str, Rows],
    *,
    spark: Any = None,
    finish: bool = False,
    environment: Mapping[str, str] | None = None,
) -> PipelineResult:
    """Run a pipeline file over some rows until nothing is left to do, in folders that are gone afterwards.

    The rows take the place of what the sources have, and each destination delivers to the result, so no source, port or box of the
    file is touched. Everything else is as in a run of `seriatim run FILE --once`.

    Args:
        file: the pipeline file.
        rows: the rows in order of arrival: mappings (a line of JSON each; for Parquet the columns), or text or bytes of one line; or what
            `faulty_feed` made. Where the file has several locations, a mapping from their names to rows.
        spark: a `SparkSession`, which is used and left open; None: the one that this process has, or else one for this call.
        finish: whether time runs out at the end, so that no message waits for a time-out.
        environment: the variables for ``${NAME}`` in the file; None: those of this process.

    Raises:
        DeclarationError: the file has faults.
        UsageError: a location isn't named, or doesn't read files.
        SeriatimError: as from a run.
    """
    pipeline = pipeline_file.load(file, os.environ if environment is None else environment, inputs=False)
    from seriatim.runtime.pipelines.run import run  # noqa: PLC0415 -- what needs Spark, when it is needed
    from seriatim.runtime.pipelines.set_aside import read_set_aside  # noqa: PLC0415
    from seriatim.spark.session.builder import is_running  # noqa: PLC0415

    if spark is not None and not is_running():
        raise UsageError(
            "the Spark session has ended, or isn't of this process", remedy="leave spark out", argument="spark"
        )
    frames = rows if isinstance(rows, Mapping) else {source.title: rows for source in pipeline.receive[:1]}
    if frames.keys() != (titles := {source.title for source in pipeline.receive}):
        raise UsageError(
            f"the locations of {file} are {', '.join(sorted(titles))}, and rows are given for {', '.join(sorted(frames)) or 'none'}",
            remedy="give rows for each: {location: rows, …}",
            argument="rows",
        )
    with TemporaryDirectory(prefix="seriatim-test-") as name:
        folder = Path(name)
        here = _in_folder(pipeline, frames, folder)
        summary = run(here, once=True, finish=finish)
        return PipelineResult(
            {route.queue.name: _delivered(route.deliver) for route in here.route},
            list(read_set_aside(folder / "set-aside")),
            summary.longest,
            summary,
        )


def _in_folder(pipeline: Pipeline, frames: Mapping[str, Rows], folder: Path) -> Pipeline:
    """The pipeline with everything that it reads and writes in a folder."""
    return replace(
        pipeline,
        checkpoint=folder / "checkpoint",
        receive=tuple(
            _reading(source, frames[source.title], folder / f"in-{n}") for n, source in enumerate(pipeline.receive)
        ),
        route=tuple(
            route if route.deliver.format == DROP else replace(route, deliver=Deliver("parquet", folder / f"out-{n}"))
            for n, route in enumerate(pipeline.route)
        ),
        set_aside=folder / "set-aside",
        unrouted=folder / "unrouted",
        claims=None,
    )


def _reading(entry: Receive, rows: Rows, folder: Path) -> Receive:
    source = entry.source
    if source.format not in _SUFFIXES:
        raise UsageError(
            f"location {entry.title!r} reads {source.format}, and rows of a test are files",
            remedy="test a copy of the file whose source is {format: json, path: inbox}",
        )
    options = {name: value for name, value in source.options.items() if name.lower() not in FILE_OPTIONS}
    if source.format == "parquet":
        import pyarrow as pa  # noqa: PLC0415 -- comes with Spark
        import pyarrow.parquet as pq  # noqa: PLC0415

        folder.mkdir()
        pq.write_table(pa.Table.from_pylist([*rows]), folder / "rows.parquet")
    else:
        feed = rows if isinstance(rows, Feed) else faulty_feed(rows, seed=0)
        by_file = source.format == "xml" or any(
            name.lower() in _BY_FILE and value.lower() == "true" for name, value in options.items()
        )
        feed.write(folder, files=max(1, len(feed)) if by_file else 1, suffix=_SUFFIXES[source.format])
    return replace(entry, source=replace(source, path=folder, options=options))


def _delivered(port: Deliver) -> list[dict[str, Any]]:
    """The rows that a destination delivered, batch by batch."""
    import pyarrow.parquet as pq  # noqa: PLC0415 -- comes with Spark

    files = [] if port.path is None else sorted(port.path.glob("batch=*/part-*"))
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
