"""A run's entries in the operator log: answers to operators' commands, after which it cleans up, and the events of groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.spark.control.log import ControlLog
from seriatim.spark.control.operator_log import ANSWER, EVENT, OperatorLog
from seriatim.spark.control.pipeline_place import log_position
from seriatim.spark.deliver.stage import Delivered


def keeping(checkpoint: Checkpoint, id_: str, count: Callable[[Delivered], None]) -> Callable[[Delivered], None]:
    """Return a function for a sink: it calls `count`, keeps a batch's answers and events, and deletes old entries of the control log: in
    its first batch those of former runs, and later those before answered commands. The batch is counted first, so that a reader of an
    answer finds the groups as it left them. The batch isn't committed yet: if it runs again, it tells the same, which takes the place of
    this.
    """
    log, control = OperatorLog(checkpoint.operator_log, id_), ControlLog(checkpoint.control)
    is_first = True

    def take(delivered: Delivered) -> None:
        nonlocal is_first
        answers, events = _told(delivered.reports)
        count(delivered)
        log.keep(delivered.batch, [*answers, *events])
        if answers or is_first:
            control.forget(log_position(checkpoint.query, done=True))
        is_first = False

    return take


def _told(reports: Iterable[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the answers in the reports of buckets, in the order in which their commands were written, and the events, in order of time."""
    content = [json.loads(report) for report in reports if '"answers"' in report or '"events"' in report]
    answers = [{"kind": ANSWER, **answer} for report in content for answer in report.get("answers", ())]
    events = [{"kind": EVENT, **event} for report in content for event in report.get("events", ())]
    return (
        sorted(answers, key=lambda answer: (answer["written"], answer["id"])),
        sorted(events, key=lambda event: (event["at"], event["queue"], event["group"])),
    )
