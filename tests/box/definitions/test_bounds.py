"""Numbers that are larger than anything means, where a box is called: refused with an error of ours, or set aside."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import seriatim as sq
from seriatim.errors import SeriatimError
from seriatim.operations import (
    dead_letters,
    dialogs,
    faults,
    groups,
    instances,
    invariants,
    messages,
    queues,
    retention,
    set_aside,
    trace,
)
from seriatim.operations.grants import grant

#: Python doesn't write out a whole number of so many digits.
LARGE = 10**5_000


def test_a_number_that_is_too_large_is_told(box: Any) -> None:
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("shop", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Subscription("shop", where="type = 'order'", to="shop"),
        sq.Location("crm"),
    )
    who = {"actor": "a", "reason": "r"}

    def in_session(call: Callable[[Any], object]) -> Callable[[], object]:
        def called() -> None:
            with box.session() as tx:
                call(tx)

        return called

    calls: list[Callable[[], object]] = [
        *[
            in_session(lambda tx, more=more: tx.publish(sq.Message(type="order", body=b""), **more))
            for more in ({"delay": LARGE}, {"visible_at": LARGE})
        ],
        *[
            lambda context=context: box.publish(sq.Message(type="order", body=b"", context=context))
            for context in ({"version": LARGE}, {"customer": LARGE}, {"x": LARGE}, {LARGE: 1})
        ],
        lambda: box.publish(sq.Message(type="mail", body=b"", context={"x": -LARGE})),
        lambda: box.publish([LARGE]),
        in_session(lambda tx: tx.dispense("crm", count=LARGE)),
        in_session(lambda tx: tx.receive("shop", limit=LARGE)),
        in_session(lambda tx: tx.receive("shop", wait=LARGE)),
        in_session(lambda tx: tx.receive("shop", group=LARGE)),
        in_session(lambda tx: tx.receive(LARGE)),
        in_session(lambda tx: tx.commit_and_receive(limit=LARGE)),
        lambda: box.peek("shop", limit=LARGE),
        lambda: messages.messages(box, limit=LARGE),
        lambda: messages.message(box, LARGE),
        lambda: dialogs.dialogs(box, limit=LARGE),
        lambda: retention.purge(box, older_than=LARGE),
        lambda: retention.purgeable(box, older_than=LARGE),
        lambda: retention.keep_message_ids(box, LARGE),
        lambda: retention.keep_faults(box, LARGE),
        lambda: invariants.long_transactions(box, LARGE),
        lambda: invariants.leases_run_out(box, LARGE),
        lambda: groups.forget(box, "shop", LARGE),
        lambda: queues.release(box, LARGE),
        lambda: grant(box, LARGE, publish=["shop"]),
        lambda: box.define(LARGE),
        lambda: groups.groups(box, limit=LARGE),
        lambda: groups.group_view(box, "shop", LARGE),
        lambda: groups.skip_hole(box, "shop", "c1", through=LARGE, **who),
        lambda: groups.reset(box, "shop", "c1", next=LARGE, **who),
        lambda: groups.suspend(box, "shop", "c1", actor=LARGE, reason="r"),
        lambda: faults.faults(box, limit=LARGE),
        lambda: faults.fault_view(box, LARGE),
        lambda: dead_letters.dead_letters(box, limit=LARGE),
        lambda: dead_letters.requeue(box, LARGE, **who),
        lambda: dead_letters.delete(box, [LARGE], **who),
        lambda: instances.instance_view(box, LARGE),
        lambda: instances.instances(box, limit=LARGE),
        lambda: instances.instances(box, after=LARGE),
        lambda: set_aside.set_aside(box, limit=LARGE),
        lambda: trace.trace_group(box, "shop", "c1", limit=LARGE),
        lambda: sq.Worker(box, "shop", print, workers=LARGE),
        lambda: sq.Worker(box, "shop", print, pace=sq.Pace(run_length=LARGE)),
        lambda: sq.Worker(box, "shop", print, pace=sq.Pace(rate=LARGE)),
        lambda: sq.Worker(box, "shop", print, pace=sq.Pace(turn_limit=LARGE)),
        lambda: sq.Worker(box, "shop", print, lease=LARGE),
    ]
    other: list[tuple[int, str]] = []
    for number, call in enumerate(calls):
        try:
            with suppress(SeriatimError):
                call()
        except TypeError as error:  # no such argument
            other.append((number, f"{error!r:.200}", traceback.extract_tb(error.__traceback__)[-1].line))
        except Exception as error:  # noqa: BLE001 - of any other kind is what this looks for
            other.append((number, f"{error!r:.200}", traceback.extract_tb(error.__traceback__)[-1].line))
    assert not other, other
