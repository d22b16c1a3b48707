"""What a run does with the answers to operators' commands: keep them in the checkpoint, and clean up behind them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.spark.control.log import ControlLog
from seriatim.spark.control.operator_log import ANSWER, OperatorLog
from seriatim.spark.control.pipeline_place import log_position
from seriatim.spark.deliver.stage import Delivered

__all__ = ["keeping"]


def keeping(checkpoint: Checkpoint, then: Callable[[Delivered], None]) -> Callable[[Delivered], None]:
    """A function for a sink: keeps the answers of a batch, then calls `then`, and deletes commands that can't be needed again.

    The batch isn't committed yet: if it runs again, it gives the same answers, which take the place of these.
    """
    log, control = OperatorLog(checkpoint.operator_log), ControlLog(checkpoint.control)

    def take(delivered: Delivered) -> None:
        answers = _answers(delivered.reports)
        log.keep(delivered.batch, answers)
        then(delivered)
        if answers:
            control.forget(log_position(checkpoint.query, done=True))

    return take


def _answers(reports: Iterable[str]) -> list[dict[str, Any]]:
    """The answers in the reports of buckets, in the order in which their commands were written."""
    told = (json.loads(report) for report in reports if '"answers"' in report)
    found = [{"kind": ANSWER, **answer} for report in told for answer in report.get("answers", ())]
    return sorted(found, key=lambda one: (one["written"], one["id"]))
