"""The groups in a checkpoint, from its state after the last committed batch. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from seriatim.kernel.groups.policy import Policy, remembering
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.resequence.group_views import fitting, not_ready, views
from seriatim.spark.resequence.held import operators, place_of, state_variable
from seriatim.spark.session.requirements import use_this_python
from seriatim.spark.state.cold_groups import is_cold, run_of
from seriatim.spark.state.group_index import Index
from seriatim.spark.state.packets import InArrow

_TOLD = "run long, told string"


def groups_in_state(
    session: SparkSession, checkpoint: Path, queues: Iterable[Queue], *, key: str | None = None, ready: bool = False
) -> list[dict[str, Any]]:
    """Return the groups of a pipeline, by queue and key, in the form of `views`."""
    use_this_python(session)
    place = place_of(checkpoint)
    policies = {queue.name: remembering(queue.policy_of(None), 0) for queue in queues}
    incarnations = _incarnations(checkpoint)
    groups: list[dict[str, Any]] = []
    tell = _telling(policies, incarnations, key, ready=ready)
    for operator in operators(session, place):
        index = state_variable(session, place, operator, "index").where("key.bucket >= 0")
        values = index.select(F.lit(0).cast("long").alias("number"), F.col("value.value").alias("value"))
        reports = [json.loads(row.told) for row in values.mapInArrow(tell, _TOLD).collect()]
        if ready:  # a group that has expired is ready or closed
            cold = state_variable(session, place, operator, "bodies").where("user_map_key.chunk < 0")
            pages = cold.select(
                F.col("user_map_key.chunk").alias("number"), F.col("user_map_value.packet").alias("value")
            )
            rows = pages.mapInArrow(tell, _TOLD).collect()
            reports += _newest(rows, {(report["queue"], report["group"]) for report in reports})
        groups += reports
    return sorted(groups, key=lambda group: (group["queue"], group["group"]))


def _incarnations(checkpoint: Path) -> dict[str, int]:
    """The present incarnations of a pipeline's destinations, as far as its manifest has them."""
    try:
        manifest = json.loads((checkpoint / "pipeline.json").read_bytes())
        return {name: int(destination["incarnation"]) for name, destination in manifest.get("destinations", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # a run reports the damage


def _newest(rows: Iterable[Any], at_hand: Collection[tuple[str, str]]) -> list[dict[str, Any]]:
    """The groups in runs that aren't in an index again, each from the newest run that has it."""
    latest: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
    for row in rows:
        report = json.loads(row.told)
        which = (report["queue"], report["group"])
        if which not in at_hand and (which not in latest or latest[which][0] < row.run):
            latest[which] = (row.run, report)
    return [report for _, report in latest.values()]


def _telling(
    policies: Mapping[str, Policy], incarnations: Mapping[str, int], key: str | None, *, ready: bool
) -> InArrow:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, value in zip(
                batch.column("number").to_pylist(), batch.column("value").to_pylist(), strict=True
            ):
                run, page = run_of(number) if is_cold(number) else (0, 0)
                if page < 0:
                    continue  # the filter of a run
                index = Index.from_bytes(value, None)
                for name, known in index.queues.items():
                    if name not in policies or known.incarnation < incarnations.get(name, 1):
                        continue
                    rows = np.arange(len(known.state)) if ready else not_ready(policies[name], known.state)
                    if key is not None:
                        rows = np.intersect1d(rows, fitting({"group": key}, policies[name], known, 0))
                    lines = [json.dumps(view) for view in views(name, policies[name], known, rows)] if len(rows) else []
                    runs = pa.array([run] * len(lines), pa.int64())
                    yield pa.RecordBatch.from_arrays([runs, pa.array(lines, pa.string())], ["run", "told"])

    return run
