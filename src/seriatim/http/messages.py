"""``/v1/messages``: publish messages, and see what became of one."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any, NamedTuple

from seriatim.box.definitions.definition import QueueOfRegions
from seriatim.box.publishing.publish_result import Published
from seriatim.box.session import Session
from seriatim.box.views.message_status import MessageState, within
from seriatim.box.workers.own_session import translating
from seriatim.http.answers import Answer, json_answer
from seriatim.http.asked import Asked
from seriatim.http.callers import Caller
from seriatim.http.declared import BATCH_TYPE, EVENT_TYPE, LONGEST_WAIT_S
from seriatim.http.events import Event, binary_event, is_binary, json_event, media_type, structured_event
from seriatim.http.problems import Problem
from seriatim.http.reading import Member, as_text, checked, items, json_of, members, moment_of
from seriatim.http.requests import ask
from seriatim.pipeline.types.message import Message

_STRUCTURED, _PLAIN = "application/cloudevents", "application/json"
_MOST_MESSAGES = 10_000
#: Characters of a source that are kept as they are with an id.
_LONGEST_SOURCE = 256


class _Given(NamedTuple):
    """A message or an event, and the part of the role's id space in which its id is unique; empty: the whole space."""

    message: Message | Event
    space: str


class _Taken(NamedTuple):
    """What became of a message. Its names are those of the answer."""

    id: str
    result: str
    queues: Sequence[str]
    invalid: Mapping[str, str]
    waiting: str | None

    def told(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value or name in ("id", "result", "queues")}


async def publish(asked: Asked, caller: Caller) -> Answer:
    options = {name: asked.parameters[name] for name in ("delay", "unique", "unrouted") if name in asked.parameters}
    if (moment := asked.parameters.get("visible_at")) is not None:
        options["visible_at"] = moment_of("visible_at", moment)
    given, is_batch = await _given(asked, caller.token.name)
    if "reply" in asked.parameters:
        return await _requested(asked, caller, given, options, is_batch=is_batch)
    if not given:
        return json_answer(200, {"messages": []})
    taken = await _in_session(asked, caller, given, options)
    found = {one.result for one in taken}
    status = 201 if "new" in found else 202 if "unrouted" in found else 200
    if is_batch:
        return json_answer(status, {"messages": [one.told() for one in taken]})
    first = given[0].message
    source = {"source": first.source} if isinstance(first, Event) else {}
    headers = {"Location": asked.address("v1", "messages", taken[0].id, **source)}
    return json_answer(status, taken[0].told(), headers)


async def _requested(
    asked: Asked, caller: Caller, given: Sequence[_Given], options: Mapping[str, Any], *, is_batch: bool
) -> Answer:
    if is_batch or options:
        what = "a batch" if is_batch else next(iter(options))
        raise Problem(422, f"a request is one message, without delays and keys: {what} can't be given with reply")
    (one,) = given

    def made(session: Session) -> Message:
        return one.message if isinstance(one.message, Message) else one.message.message(_declared(session))

    return await ask(asked, caller, made, one.space)


def _declared(session: Session) -> Mapping[str, Collection[str]]:
    definitions = session.transaction.definitions()
    return {name: kind.properties for name, kind in definitions.types.items()}


async def _in_session(
    asked: Asked, caller: Caller, given: Sequence[_Given], options: Mapping[str, Any]
) -> list[_Taken]:
    @translating
    def publish(session: Session) -> list[_Taken]:
        taken: list[_Taken] = []
        declared: Mapping[str, Collection[str]] = {}
        if any(isinstance(one.message, Event) for one in given):
            declared = _declared(session)
        for space, run in groupby(given, lambda one: one.space):
            session.transaction.do("choose_id_space", part=space)
            # Nobody waits for room with a connection in hand: the caller is told when to come again.
            messages = [
                one.message if isinstance(one.message, Message) else one.message.message(declared) for one in run
            ]
            published = session.publish(messages, wait=0, **options)
            caller.check_published(published)
            taken += _taken(published)
        return taken

    try:
        async with caller.box.session() as session:
            return await session.run(publish)
    except QueueOfRegions as found:
        if (regions := asked.regions) is None:
            raise
        for queue in sorted(found.queues):
            caller.check("publish", queue)
        # All senders of the regions share one id space: a part of a role's space is in the id.
        messages = [
            replace(one.message, message_id=f"{one.space} {one.message.message_id}") if one.space else one.message
            for one in given
            if isinstance(one.message, Message)
        ]
        if len(messages) < len(given) or options:
            raise Problem(
                422, "messages for a queue of two regions are plain JSON, without parameters",
                remedy="send them in a request of their own",
            ) from None  # fmt: skip
        known = {one.message_id for one in await caller.box.run(lambda _: regions.publish(messages)) if one.is_known}
        taken = []
        for id_ in (message.message_id for message in messages):
            result = "known" if id_ in known else "new"
            taken.append(_Taken(id_, result, sorted(found.queues) if result == "new" else [], {}, None))
            known.add(id_)
        return taken


def _taken(published: Published) -> list[_Taken]:
    """What became of each message of a call, in order."""
    found = []
    waiting = {waits: own for own, waits in published.waiting.items()}
    ids = [waiting.get(id_, id_) for id_ in published]
    # Of an id that is repeated in the call the first one is published, unless it was before.
    fresh = Counter(ids) - Counter(published.left_out)
    for own in ids:
        queues, invalid = published.queues.get(own, ()), published.invalid.get(own, {})
        if own in published.waiting:
            result = "waiting"
        elif not fresh[own]:
            result = "known"
        else:
            result = "new" if queues else "unrouted"
            fresh[own] -= 1
        found.append(_Taken(own, result, queues, invalid, published.waiting.get(own)))
    return found


async def _given(asked: Asked, token: str) -> tuple[list[_Given], bool]:
    """The messages of a request, and whether they are a batch."""
    kind = media_type(asked.content_type or "")
    if kind.startswith(_STRUCTURED) and kind not in (EVENT_TYPE, BATCH_TYPE):
        raise Problem(
            415, f"events of the format {kind} can't be read", remedy=f"{EVENT_TYPE}, {BATCH_TYPE}, or headers ce-…"
        )
    if kind in (EVENT_TYPE, BATCH_TYPE):
        text = as_text(await asked.body())
        events = [structured_event(text)] if kind == EVENT_TYPE else [json_event(members(one)) for one in _items(text)]
    elif is_binary(asked.headers_sent):
        events = [binary_event(asked.headers_sent, asked.content_type, bytes(await asked.body()))]
    elif kind == _PLAIN:
        return _plain(as_text(await asked.body()), asked.parameters.get("Idempotency-Key"), token)
    else:
        raise Problem(
            415,
            f"the media type {kind!r:.80} isn't known",
            remedy=f"application/json, {EVENT_TYPE}, {BATCH_TYPE}, or headers ce-…",
        )
    return [_Given(one, _space_of(one.source)) for one in events], kind == BATCH_TYPE


def _space_of(source: str) -> str:
    """The part of an id space for the events of a source. A long one is in it by its digest, so that an index can hold it."""
    short = (
        source if len(source) <= _LONGEST_SOURCE else hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()
    )
    return f"source:{short}"


def _items(text: str) -> list[str]:
    found = items(text)
    if len(found) > _MOST_MESSAGES:
        raise Problem(413, f"a batch has at most {_MOST_MESSAGES:,} messages")
    return found


def _plain(text: str, key: str | None, token: str) -> tuple[list[_Given], bool]:
    found = checked("MessageOrMessages", json_of(text))
    is_batch = isinstance(found, list)
    if is_batch and key is not None:
        raise Problem(422, "an Idempotency-Key is the id of one message", remedy="give each message its message_id")
    values = found if is_batch else [found]
    if all(isinstance(one.get("body", ""), str) for one in values):
        each = [{name: Member(value, "") for name, value in one.items()} for one in values]
    else:  # JSON stays as it was written
        each = [members(one) for one in (_items(text) if is_batch else [text])]
    return [_plain_message(said(one), key, token) for one in each], is_batch


def said(found: Mapping[str, Member]) -> dict[str, Member]:
    """What a message in plain JSON says: without what is null, unless that is its body."""
    return {name: one for name, one in found.items() if one.value is not None or name == "body"}


def _plain_message(found: Mapping[str, Member], key: str | None, token: str) -> _Given:
    if "message_id" in found or key is None:
        return _Given(plain_message(found), "")
    return _Given(plain_message({**found, "message_id": Member(key, "")}), f"key:{token}")


def plain_message(found: Mapping[str, Member]) -> Message:
    """A message in plain JSON, which fits its schema."""
    fields = {name: found[name].value for name in ("type", "context", "content_type", "message_id") if name in found}
    body, kind = b"", None
    if "body_base64" in found:
        if "body" in found:
            raise Problem(422, "a message has body or body_base64, not both")
        try:
            body = base64.b64decode(found["body_base64"].value, validate=True)
        except (binascii.Error, ValueError):
            raise Problem(422, "body_base64 is no Base64") from None
    elif "body" in found:
        value = found["body"].value
        is_text = isinstance(value, str)
        body = (value if is_text else found["body"].text).encode(errors="surrogatepass")
        kind = None if is_text else _PLAIN
    return Message(**{"content_type": kind, **fields, "body": body})


async def status(asked: Asked, caller: Caller) -> Answer:
    id_, source = asked.parameters["id"], asked.parameters.get("source")
    space = None if source is None else f"{caller.token.id_space}/{_space_of(source)}"
    wait_s = min(asked.parameters.get("wait", 0.0), LONGEST_WAIT_S)
    whole = await asked.while_there(caller.box.status_of(id_, wait=wait_s, id_space=space))
    found = within(whole, {*caller.token.publish, *caller.token.receive})
    if found.state is MessageState.UNKNOWN:
        raise Problem(404, f"there is no message {id_!r:.80}", code="not-found", state=found.state.value)
    return json_answer(200, asdict(found) | {"reason": found.reason, "is_final": found.is_final})
