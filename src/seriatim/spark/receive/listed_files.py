"""Check that a micro-batch reads every file that Spark has noted for it.

Spark notes the files of a micro-batch in the checkpoint and looks them up when it plans the batch. A file that is gone
by then is left out silently, and the batch is committed without its rows. So the noted files are compared with
the found files, before anything of the batch is delivered. A file that was found and is gone before a task opens it
fails the task, unless Spark was told to ignore that. This check reads neither the files nor the folders again. Files
that Spark would read several times are read once (`repeated_files.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from seriatim.errors import EnvironmentProblem
from seriatim.spark.receive.noted_files import noted_files, path_of
from seriatim.spark.receive.repeated_files import is_like_pattern, read_once

_MOST_NAMED = 3
_QUERY_ID = "sql.streaming.queryId"


def check_files(session: SparkSession, query: Path, batch: int) -> None:
    """Compare the files that Spark has noted for a micro-batch with those that it has found; call it in the batch."""
    noted = Counter(noted_file.uri for noted_file in noted_files(query, batch))
    if not noted:
        return
    execution = execution_of(session)
    listings = [relation.location() for relation in relations(execution)]
    if any(is_like_pattern(unquote(name)) for name in noted):
        # Their number isn't compared: some may be listed several times, and others missing.
        read_once(session, execution, len(listings))
    elif sum(listing.allFiles().size() for listing in listings) == noted.total():
        return
    # Each name costs a call to the JVM: they are fetched only where some may be missing.
    names = Counter(name for listing in listings for name in {str(name) for name in listing.inputFiles()})
    missing = sorted(path_of(name) for name in noted - names)
    if missing:
        more = f" and {len(missing) - _MOST_NAMED:,} more" if len(missing) > _MOST_NAMED else ""
        files = "an input file is" if len(missing) == 1 else f"{len(missing):,} input files are"
        raise EnvironmentProblem(
            f"{files} gone since batch {batch} was begun, and not read: {', '.join(missing[:_MOST_NAMED])}{more}",
            remedy="restore the files and start again; to give a file up, put an empty file in its place",
        )


def execution_of(session: SparkSession) -> Any:
    """Spark's execution of the micro-batch that this thread runs."""
    # Spark has no public way: the frame of the batch is cut off from its sources.
    id_ = session.sparkContext.getLocalProperty(_QUERY_ID)
    return session._jsparkSession.streams().get(id_).streamingQuery().lastExecution()  # noqa: SLF001


def relations(execution: Any) -> Iterator[Any]:
    """The relations of a micro-batch: one for each file source, with its listing and options."""
    leaves = execution.logical().collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        if leaf.isStreaming() and leaf.getClass().getSimpleName() == "LogicalRelation":
            yield leaf.relation()
