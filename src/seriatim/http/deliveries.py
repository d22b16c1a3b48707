"""``/v1/queues/{queue}/deliveries``: take messages under leases, and end them.

A caller that waits costs a socket: it takes a connection to PostgreSQL, and room in memory, only to look. Nothing is handed out to a caller
that has gone away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import UTC
from typing import Any, cast

from seriatim.aio.lease import AsyncTakenLease
from seriatim.box.box import MessageBox
from seriatim.box.leases.bodies import Bodies
from seriatim.box.leases.calls import LeaseCalls
from seriatim.box.leases.door import Door, Superseded, Wanted
from seriatim.box.leases.taken import LeaseAnswer, LeasedMessage, Principal, TakenLease
from seriatim.box.messages.received import LEFT_OUT
from seriatim.box.operators.tokens import find
from seriatim.box.session import Session
from seriatim.box.workers.own_session import translating
from seriatim.errors import UsageError
from seriatim.http.answers import Answer, as_json, json_answer
from seriatim.http.asked import Asked
from seriatim.http.callers import Caller
from seriatim.http.declared import LARGEST_INLINE, LONGEST_WAIT_S, MOST_BYTES
from seriatim.http.events import in_json, json_event, media_type, received_event
from seriatim.http.messages import plain_message, said
from seriatim.http.problems import Problem
from seriatim.http.reading import as_text, checked, items, json_of, members, period_of
from seriatim.listening.bodies import Gone
from seriatim.pipeline.types.message import Message

#: A larger body is fetched by a request of its own.
_BODIES = Bodies(LARGEST_INLINE, MOST_BYTES)
#: Bytes of a large body that are read at once.
_PIECE = 2**20
#: A caller that finds the server ending comes again after this time, seconds.
_ENDING = {"Retry-After": "1"}


async def receive(asked: Asked, caller: Caller) -> Answer:
    wanted = await _body(asked, "Wanted")
    queue = asked.parameters["queue"]
    wait_s = min(period_of("wait", wanted.get("wait", 0)), LONGEST_WAIT_S)
    options = Wanted.checked(
        queue, wanted.get("limit", 50), period_of("lease", wanted.get("lease", "30s")), wanted.get("group"),
        wanted.get("attempt_id"), wanted.get("max_bytes", MOST_BYTES),
    )  # fmt: skip
    try:
        told = await asked.while_there(_taken(asked, caller, options, wait_s))
    except Superseded:  # a later call has the attempt, and its place
        told = None
    return Answer(204) if told is None else Answer(200, told)


async def _taken(asked: Asked, caller: Caller, wanted: Wanted, wait_s: float) -> bytes | None:
    """Look, and wait for the next look, until there is a lease, or the time is over."""
    box, loop = caller.box, asyncio.get_running_loop()
    lines = box.lines
    door, until = Door(box.sync.access, _principal(caller), _BODIES), loop.time() + wait_s
    key = None if wanted.attempt_id is None else (door.principal, wanted.attempt_id)
    with (
        door.attempt(wanted),
        lines.place(wanted.queue, is_particular=wanted.group is not None, box=box.sync, key=key) as place,
    ):
        looks = place.needs_look or wanted.attempt_id is not None or not wait_s
        while True:
            told = await _room_and_look(asked, caller, door, wanted) if looks else None
            if told is not None:
                return told
            looks = True
            if lines.is_ending:
                raise Problem(503, "the server is ending", headers=_ENDING)
            if (left_s := until - loop.time()) <= 0:
                return None
            await place.turn(left_s)


async def _room_and_look(asked: Asked, caller: Caller, door: Door, wanted: Wanted) -> bytes | None:
    """Look when there is room in memory, and keep the room that the answer takes until it is sent."""
    async with asked.looks:
        await asked.room.has(MOST_BYTES)
        lease = await _looked(asked, caller, door, wanted)
        if lease is None:
            return None
        told = _told(asked, lease)
        asked.keep_room(len(told))
        return told


async def _looked(asked: Asked, caller: Caller, door: Door, wanted: Wanted) -> TakenLease | None:
    @translating
    def look(session: Session) -> TakenLease | None:
        lease = door.look(session, wanted)
        if lease is not None and find(session.transaction, caller.secret) is None:
            raise Problem(401, "the token isn't valid any more", code="token")
        return lease

    async with caller.box.session() as session:
        lease = await session.run(look)
        if lease is not None and asked.has_left():
            raise Gone  # and the transaction is rolled back
        return lease


def _principal(caller: Caller) -> Principal:
    return Principal(caller.token.name)


def _told(asked: Asked, lease: TakenLease) -> bytes:
    """A delivery as JSON."""
    until = None if lease.until is None else lease.until.astimezone(UTC).isoformat()
    head = {
        "delivery": str(lease.id), "token": lease.token, "until": until, "queue": lease.queue, "group": lease.group,
        "done": lease.done,
    }  # fmt: skip
    told = [_event(asked, lease, message) for message in lease.messages]
    return f'{as_json(head)[:-1]}, "messages": [{", ".join(told)}]}}'.encode(errors="replace")


def _event(asked: Asked, lease: TakenLease, message: LeasedMessage) -> str:
    position = {name: getattr(message, name) for name in ("position", "ordinal", "attempt", "late")}
    source = str(message.context.get("source") or f"/queues/{lease.queue}")
    event = received_event(message, source, **position)
    if message.body is not LEFT_OUT:
        return in_json(event, message)
    place = ("v1", "queues", lease.queue, "deliveries", str(lease.id), "messages", str(message.position), "body")
    return as_json(event | {"dataref": asked.address(*place)})


def _lease(asked: Asked, caller: Caller) -> AsyncTakenLease:
    try:
        return caller.box.leased(asked.parameters["id"], principal=_principal(caller))
    except UsageError as error:
        raise Problem(404, error.what, remedy=error.remedy, code="not-found") from None


def _done(answer: LeaseAnswer) -> Answer:
    return json_answer(200, asdict(answer))


async def complete(asked: Asked, caller: Caller) -> Answer:
    lease = _lease(asked, caller).sync
    text = await _text(asked)
    wanted = checked("Complete", json_of(text))
    results = _results(items(members(text)["publish"].text)) if wanted.get("publish") else []
    calls = LeaseCalls(caller.box.sync.access, _principal(caller))
    return _done(
        await caller.box.run(lambda _: calls.complete(lease, wanted.get("through"), results, caller.check_published))
    )


def _results(texts: list[str]) -> list[Message | tuple[int, Message]]:
    """The results of a call: events or plain JSON, each with the position of its cause where it has one."""
    found: list[Message | tuple[int, Message]] = []
    for text in texts:
        given = members(text)
        position = given.pop("position", None)
        if "specversion" in given:
            event = json_event(given)
            whole = event.message({})
            message = Message(
                type=whole.type, body=whole.body, context=whole.context, content_type=whole.content_type,
                message_id=f"{event.source} {whole.message_id}",
            )  # fmt: skip
        else:
            message = plain_message(said(given))
        found.append(message if position is None or position.value is None else (position.value, message))
    return found


async def fail(asked: Asked, caller: Caller) -> Answer:
    wanted = await _body(asked, "Fail")
    retry_after = wanted.get("retry_after")
    after_s = None if retry_after is None else period_of("retry_after", retry_after)
    lease = _lease(asked, caller)
    return _done(await lease.fail(wanted["at"], wanted.get("kind", "unexpected"), wanted.get("error", ""), after_s))


async def postpone(asked: Asked, caller: Caller) -> Answer:
    wanted = await _body(asked, "Postpone")
    return _done(await _lease(asked, caller).postpone(wanted["at"], period_of("delay", wanted["delay"])))


async def dead_letter(asked: Asked, caller: Caller) -> Answer:
    wanted = await _body(asked, "DeadLetter")
    return _done(await _lease(asked, caller).dead_letter(wanted["at"], wanted["reason"]))


async def renew(asked: Asked, caller: Caller) -> Answer:
    wanted = await _body(asked, "Renew")
    period_s = period_of("lease", wanted["lease"]) if "lease" in wanted else None
    until = await _lease(asked, caller).renew(period_s)
    return json_answer(200, {"until": until.astimezone(UTC).isoformat()})


async def give_back(asked: Asked, caller: Caller) -> Answer:
    return _done(await _lease(asked, caller).give_back())


async def body(asked: Asked, caller: Caller) -> Answer:
    """The body of a message, in pieces: it may be larger than what the process holds."""
    lease, at = _lease(asked, caller), asked.parameters["position"]

    async def read(begin: int) -> Any:
        def part(box: MessageBox) -> Any:
            named = {"of_lease": lease.id, "of_holder": caller.token.name}
            with box.access.transaction() as transaction:
                return transaction.maybe("leased_body", **named, at=at, from_byte=begin + 1, how_many=_PIECE)

        found = await caller.box.run(part)
        if found is None:
            raise Problem(410, f"the message at position {at} is done", code="lease-lost")
        return found

    await asked.take_room(_PIECE)
    first = await read(0)

    async def pieces() -> AsyncIterator[bytes]:
        piece, sent = bytes(first.part_body), 0
        while True:
            yield piece
            sent += len(piece)
            if sent >= first.size:
                return
            piece = bytes((await read(sent)).part_body)

    kind = (first.content_type or "").strip()
    fits = kind and kind.isascii() and kind.isprintable()  # in a header; a message may have any text
    return Answer(200, pieces(), kind if fits else "application/octet-stream", size=first.size)


async def _text(asked: Asked) -> str:
    kind = media_type(asked.content_type or "application/json")
    if kind != "application/json":
        raise Problem(415, f"the media type {kind!r:.80} isn't known", remedy="application/json")
    return as_text(await asked.body()) or "{}"


async def _body(asked: Asked, schema: str) -> dict[str, Any]:
    found = cast("dict[str, Any]", checked(schema, json_of(await _text(asked))))
    return {name: value for name, value in found.items() if value is not None}


HANDLERS: Mapping[str, Callable[[Asked, Caller], Awaitable[Answer]]] = {
    "receive": receive, "complete": complete, "fail": fail, "postpone": postpone, "dead_letter": dead_letter,
    "renew": renew, "give_back": give_back, "body": body,
}  # fmt: skip
