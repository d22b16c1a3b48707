"""Set aside the batches that wait for the port of a removed destination.

Batches that wait were released, and are counted so. Their rows go into the set-aside folder of the same batch, in a file for each batch,
and then the batch leaves the outbox. A run that is killed in between does it again: the file replaces itself. If that batch of the
set-aside folder waits, too, the file goes into the one that waits: when it is delivered it replaces the batch in the folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from seriatim.errors import CheckpointMismatch, EnvironmentProblem
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.spark.deliver.layout import JSON_OPTIONS, body_as_text
from seriatim.spark.deliver.outbox import Kept, folder_name, kept_in
from seriatim.spark.deliver.port import Port
from seriatim.spark.deliver.stage import SET_ASIDE, Folders
from seriatim.spark.frames.columns import quoted
from seriatim.spark.state.checkpoint_files import sync_folder

_REASON = "its destination was taken away before its port took it"


def set_aside_waiting(
    session: SparkSession, identity: str, folders: Folders, fence: int, former: Pipeline, names: Collection[str]
) -> None:
    """Set aside, as dead, the released messages that wait for the ports of some destinations."""
    for name in names:
        folder = folders.waiting_for(name)
        waiting = kept_in(folder)[1]
        if not waiting:
            continue
        aside = Port(SET_ASIDE, folders.set_aside.absolute(), "json", fence=fence)
        late = Port(SET_ASIDE, folders.waiting_own(SET_ASIDE), "json", fence=fence)
        for folder_of_rows in (aside, late):
            folder_of_rows.claim(former.name, identity)
        port = Port(name, folder, "", fence=fence)
        kind = str((port.manifest() or {}).get("format"))
        try:
            for kept in waiting:
                lines = _lines(_rows(session, port.folder(kept.batch), kind, kept, name), name)
                _put(lines, late if late.folder(kept.batch).exists() else aside, kept.batch, name)
                port.remove(kept.batch)
            shutil.rmtree(folder)
        except OSError as error:
            problem = f"what waits for {name!r} can't be set aside: {error.strerror}"
            raise EnvironmentProblem(problem, where=str(error.filename or aside.root)) from error


def _rows(session: SparkSession, batch: Path, kind: str, kept: Kept, name: str) -> DataFrame:
    files = [str(file) for file in sorted(batch.glob("part-*"))]
    match kind:
        case "parquet":
            return session.read.parquet(*files)
        case "json":
            return session.read.text(files)
        case "csv":
            names, options = kept.columns, kept.options
            header = options.get("header", "true") == "true"
            reader = session.read.option("multiLine", "true").option("escape", '"').option("quote", '"')
            rows = reader.options(header=header, sep=options.get("sep", options.get("delimiter", ","))).csv(files)
            return rows if header else rows.toDF(*names, *rows.columns[len(names) :])
    raise CheckpointMismatch(f"what waits for {name!r} has the format {kind}", where=str(batch))


def _lines(rows: DataFrame, name: str) -> DataFrame:
    """The rows as the set-aside folder has them: JSON, each a line."""
    fields = {"destination": name, "disposition": "dead", "reason": _REASON}
    literals = [F.lit(value).alias(key) for key, value in fields.items()]
    if rows.columns == ["value"]:
        head = F.to_json(F.struct(*literals))
        return rows.select(
            F.concat(F.substr(head, F.lit(1), F.length(head) - 1), F.lit(","), F.substr("value", F.lit(2)))
        )
    columns = [quoted(name) for name in rows.columns if name not in ("body", *fields)]
    columns += body_as_text() if "body" in rows.columns else []
    return rows.select(F.to_json(F.struct(*literals, *columns), JSON_OPTIONS))


def _put(lines: DataFrame, aside: Port, batch: int, name: str) -> None:
    staged = aside.staging / "abandoned"
    aside.begin()
    try:
        # Spark takes a path as it is: in a URI a space or a plus sign would be other characters.
        lines.coalesce(1).write.mode("overwrite").option("maxRecordsPerFile", 0).text(f"file://{staged}")
        into = aside.folder(batch)
        into.mkdir(exist_ok=True)
        (file,) = staged.glob("part-*")
        with file.open("rb") as written:
            os.fsync(written.fileno())
        file.replace(into / f"part-abandoned-{folder_name(name)}.json")
        sync_folder(into)
        sync_folder(aside.root)
    finally:
        aside.begin()
