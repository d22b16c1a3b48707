"""Mend many messages, each in its own way: export them as lines of JSON, edit the lines, and retry the groups with them.

An edit changes a message's body and its properties, except the properties that order it or say where it is from. The
message as it was published is kept. The names, types and errors of the fields are the same as in `ExportedMessage`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from decimal import Decimal
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.box.operators import edits as box_edits
from seriatim.box.operators.edits import NotRetried, PlannedRetry, Retried
from seriatim.box.operators.failed_message import failed_of
from seriatim.box.operators.operator_log import Operator
from seriatim.box.views import listing
from seriatim.box.views.exported import ExportedMessage, exported
from seriatim.box.views.filtered import filtered
from seriatim.box.views.groups import GroupFilter, GroupView, groups_of
from seriatim.box.views.message_places import MessageFilter
from seriatim.errors import NotFound, Unavailable, UsageError, is_whole, shown
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import RETRIED_IN, Action
from seriatim.operations.listing import check_queues
from seriatim.operations.tables.table import as_json_line
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.section import likely

__all__ = [
    "RETRIED_IN",
    "ExportedMessage",
    "NotRetried",
    "Plan",
    "PlannedRetry",
    "Retried",
    "export",
    "line_of",
    "plan",
    "read",
    "retry",
]

#: The most groups, and roughly the most bytes of bodies, that one transaction retries.
_MOST_GROUPS = 200
_MOST_BYTES = 32 * 2**20
_PAGE = 1_000
#: The fields of a line that have to be there; those that people read, but nothing reads again; and the bodies, of which it has one.
_NEEDED = ("queue", "group", "message_id", "entry_id", "sequence", "type", "content_type", "context")
_READ_BY_PEOPLE = ("status", "attempt", "error")
_WRITTEN = (
    "queue",
    "group",
    "message_id",
    "entry_id",
    "status",
    "sequence",
    "attempt",
    "error",
    "type",
    "content_type",
)
_BODIES = ("body", "body_base64")


@dataclass(frozen=True, slots=True)
class ExportFilter(MessageFilter):
    """The messages that are exported."""

    _: KW_ONLY
    state: GroupState | str | Iterable[GroupState | str] | None = listing.choice(
        "the message that stops each group in this state: faulted, or one of the others if the group waits for the next attempt",
        sorted(RETRIED_IN), "a state in which a message stops a group and can be retried", many=True,
    )  # fmt: skip


@filtered(ExportFilter, "the box", without=("after", "limit", "seconds"))
def export(box: MessageBox, chosen: ExportFilter) -> Iterator[ExportedMessage]:
    """Export messages with their bodies and properties, oldest first, in one transaction. Never all bodies are in memory.

    Raises:
        EnvironmentProblem: the role doesn't see bodies.
    """
    check_queues(box.definitions(), chosen)
    states = chosen.parameters()["state"]
    return _exported(box, chosen, None if states is None else frozenset(map(GroupState, states)))


def _exported(
    box: MessageBox, chosen: MessageFilter, states: frozenset[GroupState] | None
) -> Iterator[ExportedMessage]:
    with box.access.transaction() as transaction:
        if states is None:
            yield from exported(transaction, chosen)
            return
        known = transaction.definitions()
        where = GroupFilter(chosen.queue, state=states, limit=_PAGE)
        while True:
            page = groups_of(transaction, where, None if chosen.group is None else [chosen.group])
            for name, keys in _retried_of(page).items():
                stopping = failed_of(transaction, known.queue(name), keys)
                entries = {key: one.entry_ids for key, one in stopping.items()}
                if entries:
                    yield from exported(transaction, replace(chosen, queue=name), entries)
            if len(page) < _PAGE:
                break
            where = replace(where, after=(page[-1].queue, page[-1].group))
        if GroupState.FAULTED in states and chosen.status in (None, "faulted"):
            for name, one in known.queues.items():  # those that stop themselves alone
                if not one.has_groups and chosen.queue in (None, name):
                    yield from exported(transaction, replace(chosen, queue=name, status="faulted"))


def _retried_of(views: Iterable[GroupView]) -> dict[str, list[str]]:
    """The keys of the groups that may be retried, by queue."""
    found: dict[str, list[str]] = {}
    for view in views:
        if view.allows(Action.RETRY):
            found.setdefault(view.queue, []).append(view.group)
    return found


# ---- lines of JSON


def line_of(message: ExportedMessage) -> str:
    """A message as a line of JSON, without the end of the line.

    A body that is UTF-8 is the text `body`, any other `body_base64`. Decimals and timestamps among the properties are text.
    """
    fields: dict[str, object] = {name: getattr(message, name) for name in _WRITTEN}
    fields["context"] = dict(message.context)
    try:
        fields["body"] = message.body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = base64.b64encode(message.body).decode()
    return as_json_line(fields)


def read(lines: Iterable[bytes], name: str = "") -> list[ExportedMessage | UsageError]:
    """Read edited messages from lines of JSON; empty lines are left out.

    Args:
        lines: the lines, as from a file in binary mode.
        name: the name of the file, for errors.

    Returns:
        for each line the message, or the error of a line that isn't one.
    """
    found: list[ExportedMessage | UsageError] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}:{number}" if name else f"line {number}"
        try:
            found.append(_message(line, where))
        except UsageError as error:
            found.append(UsageError(error.what, where=where, remedy=error.remedy))
    return found


def _message(line: bytes, where: str) -> ExportedMessage:
    try:
        fields = json.loads(line, parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_distinct)
    except UnicodeDecodeError:
        raise UsageError("the line is not UTF-8", remedy="save the file as UTF-8") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError):
            raise UsageError(f"the line is not JSON: {error.msg} at character {error.pos + 1}") from None
        raise UsageError(f"the line is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise UsageError(f"the line is {shown(fields, 60)}, and not an object", remedy="write one message in each line")
    for name in fields:
        if name not in (*_NEEDED, *_READ_BY_PEOPLE, *_BODIES):
            remedy = likely(name, (*_NEEDED, *_BODIES)) or "properties of the message belong into context"
            raise UsageError(f"there is no field {shown(name, 60)}", remedy=remedy)
    for name in _NEEDED:
        if name not in fields:
            raise UsageError(f"the field {name!r} is missing", remedy="leave it as it was exported")
        _check(name, fields[name])
    return ExportedMessage(
        **{name: fields[name] for name in _NEEDED},
        status=str(fields.get("status") or ""),
        attempt=fields["attempt"] if isinstance(fields.get("attempt"), int) else 0,
        error=str(fields["error"]) if fields.get("error") is not None else None,
        body=_body(fields),
        where=where,
    )


def _check(name: str, value: Any) -> None:
    match name:
        case "message_id" | "type":
            fits, kind = isinstance(value, str), "text"
        case "queue" | "group" | "content_type":
            fits, kind = value is None or isinstance(value, str), "text or null"
        case "context":
            fits, kind = isinstance(value, dict), "an object"
        case _:
            fits = value is None or is_whole(value, -(2**63), 2**63 - 1)
            kind = "a whole number or null"
    if not fits:
        raise UsageError(f"{name} can't be {shown(value, 60)}", remedy=f"{kind}, as it was exported")


def _body(fields: Mapping[str, Any]) -> bytes:
    given = [name for name in _BODIES if name in fields]
    if len(given) != 1:
        what = "the body is missing" if not given else "the body is there twice"
        raise UsageError(what, remedy="give the field body, with text, or body_base64")
    text = fields[given[0]]
    if not isinstance(text, str):
        raise UsageError(
            f"{given[0]} can't be {shown(text, 60)}", remedy='text: JSON in it is quoted, as in "{\\"amount\\": 10}"'
        )
    if given[0] == "body":
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise UsageError("half a surrogate pair in the body is no text") from None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError(f"body_base64 is not Base64: {error}") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{shown(name, 60)} is there twice")
        found[name] = value
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


# ---- what is done


@dataclass(frozen=True, slots=True)
class Plan:
    """What a retry with edits would do.

    Args:
        messages: the edited messages, without lines that can't be read.
        planned: for each of them what would be done, why it wouldn't be retried now, or the error of its edit.
        faults: the errors of all lines, in their order; with any nothing is done.
    """

    messages: tuple[ExportedMessage, ...]
    planned: tuple[PlannedRetry | NotRetried | UsageError, ...]
    faults: tuple[UsageError, ...]


def plan(box: MessageBox, edited: Iterable[ExportedMessage | UsageError]) -> Plan:
    """Check edited messages, and compare them with the messages of the box; changes nothing.

    Args:
        box: the box.
        edited: the messages, as `export` gives them or `read` reads them, with other bodies and properties.

    Raises:
        EnvironmentProblem: the role doesn't see bodies of a queue.
    """
    given = list(edited)
    messages = [one for one in given if not isinstance(one, UsageError)]
    planned: dict[int, PlannedRetry | NotRetried | UsageError] = {}
    seen: dict[tuple[str, int], str] = {}
    queues: dict[str, list[int]] = {}
    known = box.definitions().queues
    for at, one in enumerate(messages):
        if one.entry_id is None or one.queue is None:
            planned[at] = NotRetried("", "", one.message_id, f"message {one.message_id!r} is in no queue")
        elif one.queue not in known:
            remedy = "leave it as it was exported; a message goes to another queue by publishing it anew"
            planned[at] = NotFound(f"there is no queue {shown(one.queue)}", where=one.where, remedy=remedy)
        elif (one.queue, one.entry_id) in seen:
            first = seen[one.queue, one.entry_id]
            what = f"message {one.message_id!r} is there twice{f', first at {first}' if first else ''}"
            planned[at] = UsageError(what, where=one.where, remedy="leave one of them")
        else:
            seen[one.queue, one.entry_id] = one.where
            queues.setdefault(one.queue, []).append(at)
    for name, places in queues.items():
        for begin in range(0, len(places), _PAGE):
            some = places[begin : begin + _PAGE]
            with box.access.transaction() as transaction:
                definitions = transaction.definitions()
                compared = box_edits.plan(transaction, definitions, name, [messages[at] for at in some])
            planned |= dict(zip(some, compared, strict=True))
    results = iter(planned[at] for at in range(len(messages)))
    of_all = [one if isinstance(one, UsageError) else next(results) for one in given]
    faults = tuple(one for one in of_all if isinstance(one, UsageError))
    return Plan(tuple(messages), tuple(planned[at] for at in range(len(messages))), faults)


def retry(box: MessageBox, planned: Plan, *, actor: str, reason: str) -> Iterator[Retried | NotRetried]:
    """Retry the messages of a plan with their edits; yields a result for each message.

    Messages without a change are retried as they are. A transaction retries up to 200 groups of a queue, in a number of
    statements that doesn't depend on how many these are. A message that has changed meanwhile isn't retried, and says so;
    the other messages are, and nothing is undone.

    Args:
        box: the box.
        planned: the plan.
        actor: the operator's name.
        reason: the reason.

    Raises:
        UsageError: the plan has faults, or the actor or the reason is missing; nothing is done then.
        EnvironmentProblem: the role may not operate on a queue, or doesn't see its bodies.
    """
    by = Operator(actor, reason)
    if planned.faults:
        first, *others = planned.faults
        more = f", and {counted(len(others), 'more message')} can't be edited" if others else ""
        raise UsageError(f"{first.what}{more}", where=first.where, remedy=first.remedy)
    return _retried(box, planned, by)


def _retried(box: MessageBox, planned: Plan, by: Operator) -> Iterator[Retried | NotRetried]:
    goes: dict[str, dict[str, list[ExportedMessage]]] = {}
    for message, one in zip(planned.messages, planned.planned, strict=True):
        if isinstance(one, PlannedRetry):
            goes.setdefault(one.queue, {}).setdefault(one.group, []).append(message)
        elif isinstance(one, NotRetried):
            yield one
    for name, groups in goes.items():
        for some in _portions(list(groups.values())):
            try:
                with box.access.transaction() as transaction:
                    definitions = transaction.definitions()
                    done = box_edits.retry_edited(transaction, definitions, name, some, by)
            except Unavailable as error:
                yield from (NotRetried(name, str(one.group), one.message_id, error.what) for one in some)
            else:
                yield from done


def _portions(groups: Sequence[Sequence[ExportedMessage]]) -> Iterator[list[ExportedMessage]]:
    """The messages of some groups for each transaction; those of a group stay together."""
    some: list[ExportedMessage] = []
    count = size = 0
    for messages in groups:
        more = sum(len(one.body) for one in messages)
        if some and (count == _MOST_GROUPS or size + more > _MOST_BYTES):
            yield some
            some, count, size = [], 0, 0
        some += messages
        count, size = count + 1, size + more
    if some:
        yield some
