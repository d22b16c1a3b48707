"""``/v1/messages?reply=TYPE`` and ``/v1/replies/{id}``: publish a request, and wait for its reply.

A caller that waits costs a socket: it has no connection to PostgreSQL and no room in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from seriatim.box.requests.requests import KEEP, Pending, Reply, Request
from seriatim.box.session import Session
from seriatim.box.workers.own_session import translating
from seriatim.errors import RequestFailed
from seriatim.http.answers import Answer, json_answer
from seriatim.http.asked import Asked
from seriatim.http.callers import Caller
from seriatim.http.declared import EVENT_TYPE, LONGEST_WAIT_S
from seriatim.http.events import in_json, received_event
from seriatim.http.problems import Problem
from seriatim.http.reading import period_of
from seriatim.pipeline.types.message import Message


async def ask(asked: Asked, caller: Caller, message: Callable[[Session], Message], space: str) -> Answer:
    """Publish a request, and wait for its reply. `message`: makes the message; `space`: the part of the id space of its id."""
    until = asyncio.get_running_loop().time() + _patience_s(asked)

    @translating
    def publish(session: Session) -> Pending:
        session.transaction.do("choose_id_space", part=space)
        made = message(session)
        request = Request(made, asked.parameters["reply"], KEEP, caller.token.name)
        # Nobody waits for room with a connection in hand: the caller is told when to come again.
        return request.publish(session.transaction, made, room_s=0, check=caller.check_published)

    async with caller.box.session() as session:
        pending = await session.run(publish)
    return await _replied(asked, caller, pending.id, until - asyncio.get_running_loop().time())


async def reply(asked: Asked, caller: Caller) -> Answer:
    return await _replied(asked, caller, asked.parameters["id"], _patience_s(asked))


async def _replied(asked: Asked, caller: Caller, request_id: str, wait_s: float) -> Answer:
    """The first reply as an event; or where it will be."""
    waiting = caller.box.reply(request_id, wait=max(wait_s, 0.0), asker=caller.token.name)
    try:
        found = await asked.while_there(waiting)
    except RequestFailed as error:
        raise Problem(502, f"{error.where}: {error.what}", remedy=error.remedy, code=error.code, id=error.id) from None
    place = asked.address("v1", "replies", request_id)
    if isinstance(found, Reply):
        await asked.take_room(len(found.body))
        event = received_event(found, str(found.context.get("source") or "/replies"))
        return Answer(200, in_json(event, found).encode(errors="replace"), EVENT_TYPE, {"Content-Location": place})
    told = {"id": found.id, "message_id": found.message_id, "reply": found.reply, "until": found.until.isoformat()}
    return json_answer(202, told, {"Location": place})


def _patience_s(asked: Asked) -> float:
    """How long the caller wants to wait, by the header ``Prefer`` of RFC 7240."""
    for preference in (asked.header("prefer") or "").split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            text = value.strip().strip('"')
            if not text.isascii() or not text.isdigit() or len(text) > 9:
                raise Problem(
                    400, f"the header Prefer can't be read: wait={text!r:.40}", remedy="Prefer: wait=20, in seconds"
                )
            return min(period_of("wait", int(text)), LONGEST_WAIT_S)
    return 0.0
