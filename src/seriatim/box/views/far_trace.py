"""The steps of a message in the boxes into which it was sent, as far as they report them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from seriatim.box.connection.access import Access
from seriatim.box.links.answers import MessageSteps
from seriatim.box.links.carrier import Carrier
from seriatim.box.links.frame import Frame, check
from seriatim.box.links.https_carrier import HttpsCarrier
from seriatim.box.links.layout import FrameKind
from seriatim.box.views.faults import FaultView
from seriatim.box.views.trace import Step, StepKind, Trace, TracedPlace, steps_elsewhere
from seriatim.errors import SeriatimError, Unavailable
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.files.json_form import from_json

#: A person waits for it: seconds for a connection, for an answer, and for all boxes.
CONNECT_S, ANSWER_S, ALL_S = 3, 5.0, 15.0
#: The limits of what is shown of another box's report.
_LONGEST_TEXT, _MOST_PLACES, _MOST_FAULTS = 1000, 20, 50

_PLACE = {
    "queue": str, "group": str, "status": str, "reason": str, "sequence": int, "ordinal": int, "late": bool, "attempt": int,
    "visible_at": datetime, "since": datetime, "done_by": str,
}  # fmt: skip
_FAULT = {
    "queue": str, "group": str, "attempt": int, "kind": str, "error_class": str, "error": str, "at": datetime, "worker": str,
    "retry_at": datetime,
}  # fmt: skip
_MESSAGE = {"received_at": datetime, "type": str, "ticket": dict, "places": list, "faults": list}
_TICKET = {"location": str, "epoch": int, "number": int}


class _Told(NamedTuple):
    """A box's report of a message: when it came, and its steps there; None: it doesn't know it, or doesn't report."""

    link: str
    peer: UUID
    steps: list[Step] | None
    #: Why it couldn't be asked.
    error: str | None = None


def with_steps_elsewhere(access: Access, trace: Trace, message_id: str, id_space: str | None) -> list[Step]:
    """Return the steps of a trace, with those of at most ten boxes behind links that grant it, each asked for a few seconds."""
    if not trace.may_have_left:
        return trace.steps
    with access.transaction() as transaction:
        if transaction.check_sight("see"):
            return trace.steps
        requests = transaction.rows("link_trace_requests", its_id=message_id, of_space=id_space)
    until = time.monotonic() + ALL_S
    answers = [_told(request, message_id) for request in requests if time.monotonic() < until]
    steps = list(trace.steps)
    if trace.is_gone and any(answer.steps for answer in answers):
        ends = [step for step in steps if step.kind is StepKind.UNKNOWN]
        for answer in answers:
            if answer.steps and ends:
                text = f"sent over link {answer.link} to box {answer.peer}, acknowledged; the time isn't kept"
                steps[steps.index(ends[0])] = replace(ends[0], kind=StepKind.DONE, text=text)
                break
    for answer in answers:
        steps += answer.steps or []
        if answer.error is not None:
            text = f"box {answer.peer} can't be asked what became of it: {answer.error}"
            steps.append(Step(None, StepKind.UNKNOWN, text, message_id, link=answer.link))
    return steps


def _told(request: Any, message_id: str) -> _Told:
    """Return the report of a link's box about a message."""
    link = from_json(Link, json.loads(request.definition))
    try:
        kind = Carrier if link.url is None else HttpsCarrier
        carrier = kind(link, answer_s=ANSWER_S, connect_s=CONNECT_S)
        try:
            answer = carrier.trace(bytes(request.frame))
        finally:
            carrier.close()
        frame = Frame.read(answer)
        if frame.kind != FrameKind.STEPS or frame.head.sender != request.peer:
            return _Told(request.link, request.peer, None)
        return _Told(request.link, request.peer, _steps_of(request.link, message_id, MessageSteps.read(frame).told))
    except Unavailable as error:
        return _Told(request.link, request.peer, None, error.what)
    except SeriatimError:  # its door isn't for us
        return _Told(request.link, request.peer, None)


def _steps_of(link: str, message_id: str, read: object) -> list[Step] | None:
    """Return the steps in the other box's report; None: nothing is known."""
    if read == {}:
        return None
    message = _fields(read, _MESSAGE)
    received_at = message["received_at"]
    check(received_at is not None, "a trace doesn't say when its message came")
    if message["ticket"] is None:
        received = Step(received_at, StepKind.RECEIVED, "from this box", message_id, link=link)
        text = "it is gone there: done in its queue, which keeps nothing of it, sent on, or deleted"
        return [received, Step(None, StepKind.UNKNOWN, text, message_id, link=link)]
    ticket = _fields(message["ticket"], _TICKET)
    base = TracedPlace(
        message_id, message["type"] or "", ticket["location"] or "", ticket["epoch"] or 0, ticket["number"] or 0, received_at, 1,
        queue=None, group=None, entry_id=None, status=None, reason=None, sequence=None, ordinal=None, late=None, attempt=None,
        visible_at=None, subscriptions=[], since=None, id_space="", done_by=None,
    )  # fmt: skip
    places = [replace(base, **_fields(place, _PLACE)) for place in (message["places"] or [])[:_MOST_PLACES]]
    faults = []
    for fault in (message["faults"] or [])[:_MOST_FAULTS]:
        fields = _fields(fault, _FAULT)
        check(fields["at"] is not None, "a fault in a trace has no time")
        texts = {name: fields[name] or "" for name in ("group", "kind", "error_class", "error", "worker")}
        faults.append(
            FaultView(
                0, fields["queue"], texts["group"], message_id, base.type, None, None, fields["attempt"] or 0, texts["kind"],
                texts["error_class"], texts["error"], "", fields["at"], texts["worker"], fields["retry_at"],
            )
        )  # fmt: skip
    return steps_elsewhere(link, places or [base], faults)


def _fields(read: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return the fields of an object that have these names, each of its kind or None."""
    content = read if isinstance(read, dict) else {}
    check(content is read, "a trace isn't an object of JSON as it should be")
    return {name: _value(content.get(name), kind) for name, kind in kinds.items()}


def _value(value: object, kind: type) -> object:
    if kind is datetime and isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
        check(isinstance(value, datetime) and value.tzinfo is not None, "a trace has a time that is none")
    check(value is None or type(value) is kind, "a trace has a field of another kind")
    return value[:_LONGEST_TEXT] if isinstance(value, str) else value
