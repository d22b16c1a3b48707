"""Each fast path has the effect of the general way: for each of its conditions a case in which this one doesn't hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.resources import files
from typing import Any

import pytest

import seriatim as sq
from seriatim.box.connection.fast_paths import EARLY_COMMIT, FAST_PATHS, QUEUE_HEAD, FastPath, HeadOfQueue
from seriatim.operations import groups, queues, subscriptions
from tests.databases import fresh_box

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long"})
FIFO = sq.Queue("shop", policy=sq.Fifo(), group="customer")
STANDARD = sq.Queue("shop", policy=sq.Standard(), group="customer", sequence="version")
OUT = sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal")
ALL = sq.Subscription("all", where="type = 'order'", to="shop")
Act = Callable[[Any], object]


@dataclass(frozen=True)
class Case:
    """What a box is asked to do, and what is defined in it besides the type of its messages.

    `settings`: what is set beforehand, by its place in the source.
    """

    act: Act
    defined: Sequence[Any] = (FIFO, ALL)
    settings: dict[str, object] = field(default_factory=dict)


def orders(count: int, **given: Any) -> list[sq.Message]:
    return [
        sq.Message(type="order", context={"customer": f"c{n % 2}", "version": n}, **given) for n in range(1, count + 1)
    ]


def told(delivery: Any) -> list[tuple[Any, ...]]:
    return [(delivery.group, one.context.get("version"), one.attempt) for one in delivery.messages]


def left(box: Any) -> list[tuple[Any, ...]]:
    """What each queue counts."""
    return [(one.queue, one.arrived + one.held + one.queued, one.dead, one.invalid) for one in queues.queues(box)]


def one_after_another(box: Any, between: Act = lambda _: None, until: int = 10) -> list[list[tuple[Any, ...]]]:
    """All that comes in one session, in order of each group."""
    found: list[list[tuple[Any, ...]]] = []
    box.publish(orders(4))
    with box.session() as tx:
        delivery = tx.receive("shop")
        while delivery is not None and len(found) < until:
            found.append(told(delivery))
            between(tx)
            delivery = tx.commit_and_receive()
    return sorted(found, key=lambda one: one[0][0] or "")


def refused_when_off(box: Any) -> str:
    def off(_: Any) -> None:
        queues.turn_off(box, "shop")
        box.definitions()

    with pytest.raises(sq.ActionRefused) as refused:
        one_after_another(box, off)
    return str(refused.value)


def of_a_service(box: Any) -> list[object]:
    with box.session() as tx:
        dialog = tx.begin_dialog("Shop", "Desk", contract="Talk")
        for n in range(3):
            tx.send(dialog, "Word", str(n).encode())
    found: list[object] = []
    with box.session() as tx:
        delivery = tx.receive("desk")
        while delivery is not None:
            found.append([one.body for one in delivery.messages])
            delivery = tx.commit_and_receive()
    return found


def of_instances(box: Any) -> list[object]:
    return [len(one) for one in one_after_another(box)]


def in_a_pipeline(box: Any) -> list[object]:
    box.publish(orders(3)[::2])  # of one group
    with box.session() as tx:
        found = [told(tx.receive("shop"))]
        with tx.connection.pipeline():
            found.append(told(tx.commit_and_receive()))
    return found


def behind_a_stopped_subscription(box: Any) -> list[object]:
    subscriptions.stop(box, "all")
    box.publish(orders(3))
    with box.session() as tx:
        assert tx.receive("shop") is None
    subscriptions.start(box, "all")
    return one_after_another(box)


def published(*calls: list[sq.Message]) -> Act:
    """Publish by the box; how many ids there are, and how many were left out."""
    return lambda box: [(len(ids), len(ids.left_out)) for ids in map(box.publish, calls)]


def published_in_a_session(box: Any) -> list[object]:
    with box.session() as tx:
        return [len(tx.publish(one)) for one in orders(2)]


def numbered(*versions: int) -> list[sq.Message]:
    """Messages of one group."""
    return [sq.Message(type="order", context={"customer": "c1", "version": one}) for one in versions]


def received(box: Any, limit: int = 9) -> list[tuple[Any, ...]]:
    with box.session() as tx:
        delivery = tx.receive("shop", limit=limit)
        if delivery is None:
            return []
        delivery.done()
        return told(delivery)


def in_turns(*calls: list[sq.Message], limit: int = 9) -> Act:
    """After each call of publish the messages that come at once."""

    def act(box: Any) -> list[object]:
        found: list[object] = []
        for one in calls:
            box.publish(one)
            found.append(received(box, limit))
        return [*found, received(box)]

    return act


def behind_a_skipped_hole(box: Any) -> list[object]:
    found = in_turns(numbered(2))(box)
    groups.skip_hole(box, "shop", "c1", actor="me", reason="lost")
    return [found, in_turns([], numbered(3))(box)]


def before_one_by_sql(box: Any) -> list[object]:
    box.publish(numbered(1))
    with box.session() as tx:
        context = '{"customer": "c1", "version": 2}'
        tx.connection.execute(f"SELECT {box.schema}.publish('order', '', %s::jsonb)", [context])
    return [received(box), received(box)]


def sent(*calls: tuple[tuple[int, str], ...]) -> Act:
    """What comes of calls of `send_many`: each message by the number of its dialog, and its type."""

    def act(box: Any) -> list[object]:
        with box.session() as tx:
            dialogs = [tx.begin_dialog("Shop", "Desk", contract="Talk") for _ in range(2)]
            for call in calls:
                tx.send_many([(dialogs[which], kind, b"%d" % which) for which, kind in call])
        found: list[object] = []
        with box.session() as tx:
            while (delivery := tx.receive("desk", limit=9)) is not None:
                delivery.done()
                found.append([(one.body, one.type, one.dialog.sequence) for one in delivery.messages])
        return sorted(found)

    return act


def failing(box: Any) -> list[object]:
    box.publish(sq.Message(type="order", context={"version": 1}))  # it has no group
    box.tick()
    with box.session() as tx:
        return sorted(one.type for one in tx.receive("alarms", limit=9) or ())


SINGLE = published(*([one] for one in orders(3)), orders(1, message_id="m"), orders(1, message_id="m"))
ALARMS = (sq.Queue("alarms", policy=sq.Unordered()), sq.Subscription("alarms", "type = 'seriatim.failure'", "alarms"))
TALK = (
    sq.Contract("Talk", {"Word": "any", "Sign": "any"}), sq.Service("Shop", queue="shop"), sq.Service("Desk", queue="desk", contracts=["Talk"]),
)  # fmt: skip

#: By the name of a path and of its condition that doesn't hold; "": where all do.
CASES: dict[str, dict[str, Case]] = {
    "a commit brings the next delivery along": {
        "": Case(one_after_another),
        "the queue hands out": Case(refused_when_off),
        "the queue serves no dialogs": Case(of_a_service, TALK),
        "the queue has groups": Case(one_after_another, (sq.Queue("shop", policy=sq.Unordered()), ALL)),
        "the queue has no gate": Case(one_after_another, (replace(FIFO, gate="out"), ALL, OUT)),
        "the delivery has no instance": Case(
            of_instances, (FIFO, sq.Subscription("all", "type = 'order'", "shop", starts="a:b", correlate=["customer"]))
        ),
        "the delivery is open": Case(lambda box: one_after_another(box, lambda tx: tx.delivery.done())),
        "the box's own connection, in a transaction": Case(in_a_pipeline),
    },
    "PostgreSQL hands out first in, first out, by the stored order": {
        "": Case(one_after_another),
        "all groups of the queue are Fifo": Case(one_after_another, (STANDARD, ALL)),
        "all its subscriptions are started": Case(behind_a_stopped_subscription),
    },
    "a publish is a transaction in one round trip": {
        "": Case(SINGLE),
        "the publish is a transaction by itself": Case(published_in_a_session),
        "one statement takes all messages in": Case(
            published(orders(5, body=b"x" * 40)), settings={"seriatim.box.publishing.batch._PORTION_BYTES": 50}
        ),
        "the box's own connection, without a transaction": Case(SINGLE, (replace(FIFO, max_messages=9), ALL)),
        "its transactions begin without settings": Case(
            SINGLE, settings={"seriatim.box.connection.connections.has_pooler": lambda *_: True}
        ),
        "no subscription wants failures": Case(failing, (FIFO, ALL, *ALARMS)),
    },
    "a publish commits before it is on disk, and waits for the disk afterwards": {
        "": Case(SINGLE),
        "the server can flush, and the role may": Case(
            SINGLE, settings={"seriatim.box.connection.fast_paths.can_flush": lambda _: False}
        ),
    },
    "one message is taken in by a function of its own": {
        "": Case(SINGLE),
        "one message": Case(published(orders(3))),
        "no parts": Case(published(orders(1, parts=[sq.Part("note", None, b"x")]))),
        "one entry in one queue": Case(
            SINGLE, (FIFO, ALL, sq.Queue("copies", policy=sq.Unordered()), sq.Subscription("copies", "TRUE", "copies"))
        ),
        "the entry is valid": Case(published([sq.Message(type="order", context={"version": 1})])),
        "no unique key": Case(lambda box: [len(box.publish(orders(1), unique="k").waiting) for _ in range(2)]),
        "no number of a place": Case(
            SINGLE,
            (replace(FIFO, policy=sq.Unordered(), gate="out"), ALL, OUT),
        ),
        "a plain number": Case(
            in_turns(numbered(1)), (replace(STANDARD, sequence=sq.Sequence("version", epoch="version")), ALL)
        ),
        "no reply to a request": Case(
            published([sq.Message(type="order", context={"customer": "c1", "version": 1, "correlation_id": "request-1"})])
        ),
    },
    "a turn of the next numbers is judged without columns": {
        "": Case(in_turns(numbered(2, 1), numbered(3, 5), numbered(4)), (STANDARD, ALL)),
        "the group is Standard": Case(in_turns(numbered(2, 1)), (replace(STANDARD, policy=sq.BestEffort()), ALL)),
        "its numbers are plain": Case(
            in_turns(numbered(2, 1)), (replace(STANDARD, sequence=sq.Sequence("version", modulus=8)), ALL)
        ),
        "the queue has no gate": Case(in_turns(numbered(1, 2)), (replace(STANDARD, gate="out"), ALL, OUT)),
        "messages have come, and all may leave at once": Case(in_turns(numbered(1, 2, 3), limit=2), (STANDARD, ALL)),
        "nothing else is to be done with them": Case(in_turns(numbered(2), numbered(1)), (STANDARD, ALL)),
        "a gate, or no message waits to be routed": Case(before_one_by_sql, (STANDARD, ALL)),
        "the group holds nothing": Case(behind_a_skipped_hole, (STANDARD, ALL)),
    },
    "one message is completed by a function of its own": {
        "": Case(one_after_another),
        "one message": Case(in_turns(numbered(1, 2))),
        "nothing is kept of it": Case(one_after_another, (replace(FIFO, keep="everything"), ALL)),
        "it isn't late": Case(
            in_turns(numbered(2), numbered(1)),
            (replace(STANDARD, policy=sq.Standard(start="first", late="deliver")), ALL),
        ),
    },
    "messages of one dialog are sent without a look at each of them": {
        "": Case(sent(((0, "Word"), (0, "Word")), ((1, "Sign"),), ((0, "Word"),)), TALK),
        "one dialog": Case(sent(((0, "Word"), (1, "Word"), (0, "Word"))), TALK),
        "one type": Case(sent(((0, "Word"), (0, "Sign"))), TALK),
    },
}  # fmt: skip


def test_each_condition_has_a_case():
    asked = {path.name: ["", *path.conditions] for path in FAST_PATHS if path is not QUEUE_HEAD}
    assert {name: list(cases) for name, cases in CASES.items()} == asked


def test_the_function_that_decides_further_conditions_is_there():
    for path in FAST_PATHS:
        if path.further is not None:
            module, _, name = path.further.rpartition(".")
            if module:
                assert callable(getattr(import_module(module), name))
            else:
                assert list((files("seriatim.box.postgres") / "schema/functions").glob(f"*/{name}.sql"))


@pytest.mark.dear
@pytest.mark.parametrize(
    ("path", "condition"), [(path, condition) for path, cases in CASES.items() for condition in cases]
)
def test_the_general_way_does_the_same(databases, monkeypatch, path, condition):
    case = CASES[path][condition]
    for place, value in case.settings.items():
        monkeypatch.setattr(place, value)
    found, unmet = {}, set()
    applies = FastPath.applies

    def noted(self, facts):
        unmet.add((self.name, self.unmet(facts) or ""))
        return applies(self, facts)

    for way, asked in (("fast", noted), ("general", lambda *_: False)):
        monkeypatch.setattr(FastPath, "applies", asked)
        with fresh_box(databases) as box:
            if (path, condition) == (EARLY_COMMIT.name, "") and server_version(box) < 170000:
                pytest.skip("PostgreSQL before 17 has no function that flushes")
            box.define(ORDER, *case.defined)
            found[way] = case.act(box), left(box)
    assert found["fast"] == found["general"]
    assert found["fast"][0]
    assert (path, condition) in unmet


def server_version(box):
    with box.session() as tx:
        return tx.connection.info.server_version


@pytest.mark.parametrize(
    ("policy", "took_us", "applies"),
    [(sq.Fifo(), 1, True), (sq.Standard(), 1_001, True), (sq.Standard(), 1_000, False)],
)
def test_a_place_is_remembered_unless_messages_wait_for_others_and_the_look_was_short(box, policy, took_us, applies):
    sequence = "version" if isinstance(policy, sq.Standard) else None
    box.define(ORDER, replace(FIFO, policy=policy, sequence=sequence), ALL)
    queue = box.definitions().queues["shop"]
    assert QUEUE_HEAD.applies(HeadOfQueue(queue, took_us)) is applies
