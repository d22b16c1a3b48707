"""What the handlers of a turn return is published together, and comes about as if each message's were published by itself."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextlib import suppress

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import faults, invariants, messages
from seriatim.operations.grants import grant
from seriatim.pipeline.types.message import Part
from seriatim.runtime.workers import answers, turn_size
from seriatim.testing.work import work_off
from tests.box import roles
from tests.box.gates.test_origin import gated, out  # noqa: F401 -- a fixture
from tests.box.gates.test_origin import order as job
from tests.box.shop import define, left, publish, rows, see, seen
from tests.runtime.workers.test_worker import DEADLINE_S, until, work, working

pytestmark = pytest.mark.dear


def prepare(box, **options):
    """A shop whose orders are told to one group of another queue."""
    define(box, **{"retry": sq.Retry(delay=0)} | options)
    box.define(
        sq.MessageType("note", {"customer": "string", "of": "long"}),
        sq.Queue("told", policy=sq.Fifo(), group="customer"),
        sq.Subscription("told", where="type = 'note'", to="told"),
    )


@pytest.fixture
def told(box):
    prepare(box)
    yield box
    assert invariants.broken(box) == []


def note(message, body="", kind="note", context=None, **given):
    """A message about an order."""
    told = {"customer": "x", "of": message.context["version"]} | (context or {})
    return sq.Message(type=kind, body=body.encode(), context=told, **given)


def arrived(box, queue="told"):
    """The messages of queue `told`, in order: their bodies, or the numbers of their orders."""
    with box.session() as tx:
        delivery = tx.receive(queue, limit=1000)
        return [] if delivery is None else [one.body.decode() or one.context["of"] for one in delivery.messages]


def calls(box, queue="told"):
    """How many messages came with each call of `publish`: it makes one arrival at a location."""
    counts = "SELECT count(*) AS n FROM {schema}.entries JOIN {schema}.queues USING (queue_id) WHERE queue = %s"
    return [one.n for one in rows(box, f"{counts} GROUP BY arrival_id ORDER BY arrival_id", queue)]


def failed(box, queue="shop"):
    """The faults, from the first on: number, attempt, kind, class."""
    return [(one.sequence, one.attempt, str(one.kind), one.error_class) for one in reversed(faults.faults(box, queue))]


@pytest.mark.parametrize("policy", [sq.Standard(), sq.Unordered()], ids=["groups", "no groups"])
def test_a_run_of_answers_is_one_call(box, policy, monkeypatch):
    monkeypatch.setattr(turn_size, "_SHORTEST_S", 1e9)  # any handler is fast
    monkeypatch.setattr(turn_size, "_LONGEST_S", 1e9)
    has_groups = not isinstance(policy, sq.Unordered)
    prepare(box, policy=policy, **({} if has_groups else {"group": None, "sequence": None}))
    publish(box, *range(1, 32))
    trips, wait, before = [], psycopg.Connection.wait, []
    monkeypatch.setattr(psycopg.Connection, "wait", lambda self, *a, **k: trips.append(1) or wait(self, *a, **k))

    def handle(message, tx):
        before.append(len(trips))
        return note(message)

    work_off(box, "shop", handle)
    monkeypatch.undo()
    assert arrived(box) == list(range(1, 32))
    assert len(calls(box)) == 1 if has_groups else len(calls(box)) < 10
    assert len(set(before)) == len(calls(box))  # nothing was sent between the handlers of a turn


def test_answers_stand_where_their_messages_do(told):
    """Beside what handlers publish themselves, in Python and SQL, and what they write."""
    publish(told, *range(1, 8))
    sql = f'SELECT {told.schema}.publish(\'note\', %s, \'{{"customer": "x", "of": 0}}\')'
    known = []

    def handle(message, tx):
        n = message.sequence
        if n in (3, 6):
            tx.publish(note(message, f"{n} published"))
        if n == 5:
            tx.connection.execute(sql, ["5 by SQL"])
            known.extend(tx.connection.execute(f"SELECT convert_from(body, 'UTF8') FROM {told.schema}.spool"))
        if n == 6:
            tx.publish(note(message, "6 again"))
        return None if n == 2 else [note(message, f"{n} first"), note(message, f"{n} last")]

    work_off(told, "shop", handle)
    told.tick()  # routes what came by SQL
    expected = ["1 first", "1 last", "3 published", "3 first", "3 last", "4 first", "4 last", "5 by SQL"]
    expected += ["5 first", "5 last", "6 published", "6 again", "6 first", "6 last", "7 first", "7 last"]
    found = rows(
        told, "SELECT convert_from(body, 'UTF8') AS body FROM {schema}.messages WHERE type = 'note' ORDER BY number"
    )
    assert [one.body for one in found] == expected
    # A handler sees in its transaction what the earlier ones returned.
    assert [body for (body,) in known if body] == expected[:8]


def test_a_handler_may_use_its_dictionary_again(told):
    publish(told, 1, 2, 3)
    context, found = {"customer": "x"}, []

    def handle(message, tx):
        context["of"] = message.sequence
        found[:] = [sq.Message(type="note", context=context)]
        return found

    work_off(told, "shop", handle)
    assert arrived(told) == [1, 2, 3]


def test_what_is_returned_twice_is_published_once(told):
    publish(told, 1, 2, 3)
    same, kept = sq.Message(type="note", context={"customer": "x", "of": 0}), []

    def handle(message, tx):
        kept.append(message)
        match message.sequence:
            case 1:
                return [same, message, same]
            case 2:
                return (sq.Answer(message, note(message)), kept[0])
            case 3:
                return [same, note(message)]

    work_off(told, "shop", handle)
    assert arrived(told) == [0, 2, 3]
    assert failed(told) == []
    assert len(messages.messages(told, queue="shop")) == 0


def test_much_is_not_held_back(told, monkeypatch):
    monkeypatch.setattr(answers, "_MOST_BYTES", 100_000)
    publish(told, *range(1, 8))

    def handle(message, tx):
        match message.sequence:
            case 2:
                return note(message, "2".ljust(100_000))
            case 4:
                return note(message, "4", parts=[Part("a", body=bytes(50_000)), Part("b", body=bytes(50_000))])
            case 6:
                return note(message, "6", context={"long": "x" * 100_000})
        return note(message)

    told.define(sq.MessageType("note", {"customer": "string", "of": "long", "long": "string"}))
    work_off(told, "shop", handle)
    assert [str(one).strip() for one in arrived(told)] == list("1234567")
    assert calls(told) == [2, 2, 2, 1]


def test_a_turn_is_freed_when_it_is_over(told):
    """Its bodies may be large."""
    publish(told, *range(1, 6))
    deliveries = []

    def handle(message, tx):
        deliveries.append(weakref.ref(tx.delivery))
        if message.sequence == 2:
            see(told, message, tx)
        return note(message)

    gc.disable()
    try:
        work_off(told, "shop", handle, pace=sq.Pace(run_length=3))
        assert [one() for one in deliveries] == [None] * 5
    finally:
        gc.enable()
    assert calls(told) == [1, 2, 2]


HOW = {
    "property": ("unexpected", "UsageError"),
    "address": ("unexpected", "UsageError"),
    "unrouted": ("unexpected", "Unrouted"),
    "full": ("transient", "QueueFull"),
    "trigger": ("unexpected", "UsageError"),
    "deadlock": ("transient", "Unavailable"),
}


def refuse(box, how):
    """Have the box refuse what `refused` makes."""
    match how:
        case "unrouted":
            box.define(sq.BoxSettings(unrouted="refuse"))
        case "full":
            box.define(
                sq.Queue("tight", policy=sq.Unordered(), max_messages=sq.Limit(1, when_full="refuse")),
                sq.Subscription("tight", where="type = 'tight'", to="tight"),
            )
            box.publish(sq.Message(type="tight"))
        case "trigger" | "deadlock":
            state = {"trigger": "P0001", "deadlock": "40P01"}[how]
            rows(
                box,
                "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
                f" IF NEW.message_id = 'refused' THEN RAISE 'not this' USING ERRCODE = '{state}'; END IF; RETURN NEW; END$$;"
                "CREATE TRIGGER refuse BEFORE INSERT ON {schema}.spool FOR EACH ROW EXECUTE FUNCTION public.refuse()",
            )


def refused(how, message):
    """A message that the publisher or the server refuses."""
    match how:
        case "property":
            return note(message, context={"odd": object()})
        case "address":
            return note(message, context={"to": "nowhere"})
        case "unrouted":
            return note(message, kind="unknown")
        case "full":
            return note(message, kind="tight")
    return note(message, message_id="refused")


@pytest.mark.dear
@pytest.mark.parametrize("errors", ["suspend", "continue"])
@pytest.mark.parametrize("bad", [1, 2, 3])
@pytest.mark.parametrize("how", list(HOW))
def test_who_returned_what_can_not_be_published_has_the_fault(told, how, bad, errors):
    """Those before it are done, and those behind it wait, or go on."""
    define(told, errors=errors, retry=sq.Retry(2, delay=0))
    refuse(told, how)
    publish(told, 1, 2, 3)
    handled = []

    def handle(message, tx):
        handled.append(message.sequence)
        return [note(message), refused(how, message)] if message.sequence == bad else note(message)

    work_off(told, "shop", handle, fails=True)
    assert failed(told) == [(bad, attempt, *HOW[how]) for attempt in (1, 2)]
    goes_on = errors == "continue"
    assert arrived(told) == [one for one in (1, 2, 3) if one < bad or (goes_on and one > bad)]
    assert left(told) == (0 if goes_on else 4 - bad)
    assert max(map(handled.count, (1, 2, 3))) <= 3  # one of them in the turn that was refused
    assert [one for one in faults.faults(told, "shop") if "AnswersRefused" in one.traceback] == []


@pytest.mark.parametrize(("how", "calls"), [("trigger", 2), ("address", 1), ("full", 1)])
def test_who_is_alone_in_a_turn_is_called_again_only_if_the_server_has_refused_the_answer(told, how, calls, caplog):
    """The transaction is of no use then: it has no savepoint, as the handler has written nothing."""
    define(told, retry=sq.Retry(1))
    refuse(told, how)
    publish(told, 1)
    handled = []

    def handle(message, tx):
        handled.append(message.sequence)
        return refused(how, message)

    work_off(told, "shop", handle, fails=True)
    assert handled == [1] * calls
    assert failed(told) == [(1, 1, *HOW[how])]
    assert [one for one in caplog.records if one.name == "psycopg.pool"] == []  # no connection is lost


def test_other_threads_know_that_a_group_s_answers_were_refused(told):
    """They check each message then, in place of having a turn refused, each of them in its turn."""
    define(told, retry=sq.Retry(2, delay=0))
    refuse(told, "address")
    publish(told, 1, 2, 3, 4)
    handled = []

    def handle(message, tx):
        handled.append(message.sequence)
        return refused("address", message) if message.sequence == 3 else note(message)

    work_off(told, "shop", handle, fails=True, workers=8)
    assert failed(told) == [(3, attempt, *HOW["address"]) for attempt in (1, 2)]
    assert handled.count(4) == 1  # in the turn that was refused


def uses(box, message, tx):
    see(box, message, tx)


def publishes(box, message, tx):
    tx.publish(note(message, f"{message.sequence} published"))


def goes_on(box, message, tx):
    """Nothing that it does after the refusal counts."""
    for _ in range(2):
        with suppress(Exception):
            see(box, message, tx)
        with suppress(Exception):
            tx.connection.commit()
        with suppress(Exception):
            tx.publish(note(message, f"{message.sequence} published"))


@pytest.mark.dear
@pytest.mark.parametrize("then", ["passes over it", "lets it pass", "fails otherwise"])
@pytest.mark.parametrize("does", [uses, publishes, goes_on])
@pytest.mark.parametrize("has_used", [False, True])
@pytest.mark.parametrize("how", ["address", "full", "trigger"])
def test_whose_handler_meets_the_refusal_of_another_one_s_answer_is_not_blamed(told, how, has_used, does, then, caplog):
    define(told, retry=sq.Retry(1), errors="continue")
    refuse(told, how)
    publish(told, 1, 2, 3, 4)

    def handle(message, tx):
        if message.sequence == 1 and has_used:
            see(told, message, tx)
        if message.sequence == 2:
            return refused(how, message)
        if message.sequence == 3:
            try:
                does(told, message, tx)
            except BaseException:
                if then == "lets it pass":
                    raise
                if then == "fails otherwise":
                    raise sq.Business("no") from None
        return note(message, str(message.sequence))

    work_off(told, "shop", handle, fails=True)
    assert failed(told) == [(2, 1, *HOW[how])]
    assert [one for one in arrived(told) if one in "134"] == ["1", "3", "4"]
    assert left(told) == 0
    written = ([("c1", 1)] if has_used else []) + {uses: [3], goes_on: [3, 3]}.get(does, [])
    assert [one if isinstance(one, tuple) else ("c1", one) for one in written] == seen(told)
    assert len(arrived(told)) == 3 + {publishes: 1, goes_on: 2}.get(does, 0)
    assert [one for one in caplog.records if one.name == "psycopg.pool"] == []  # no connection is lost


FAILS = {
    "business": (sq.Business("no"), ("business", "Business")),
    "bug": (LookupError("no"), ("unexpected", "LookupError")),
    "transient": (sq.Transient(), ("transient", "Transient")),
    "dead letter": (sq.DeadLetter("no"), ("business", "DeadLetter")),
    "result": (None, ("business", "Misuse")),
}


@pytest.mark.dear
@pytest.mark.parametrize("has_used", [False, True])
@pytest.mark.parametrize("bad", [1, 2, 3])
@pytest.mark.parametrize("how", list(FAILS))
def test_what_came_before_a_failure_is_published(told, how, bad, has_used):
    """Once, and nothing of what fails."""
    define(told, retry=sq.Retry(1), errors="continue")
    publish(told, 1, 2, 3)

    def handle(message, tx):
        if message.sequence == bad and has_used:
            tx.publish(note(message))
        if message.sequence == bad and how == "result":
            return [note(message), "?"]
        if message.sequence == bad:
            raise FAILS[how][0]
        return note(message)

    work_off(told, "shop", handle, fails=True)
    assert failed(told) == [(bad, 1, *FAILS[how][1])]
    assert arrived(told) == [one for one in (1, 2, 3) if one != bad]
    assert left(told) == 0


def test_what_came_before_a_postponed_message_is_published(told):
    publish(told, 1, 2, 3)

    def handle(message, tx):
        if message.sequence == 2:
            raise sq.Postpone("1d")
        return note(message)

    work_off(told, "shop", handle)
    assert arrived(told) == [1]
    assert left(told) == 2
    assert failed(told) == []


@pytest.mark.parametrize("ends", [sq.Postpone("1d"), sq.Business("no")])
def test_a_refused_answer_and_a_later_message_that_fails_by_itself(told, ends):
    """The later one isn't tried before the earlier one is judged."""
    define(told, retry=sq.Retry(1))
    refuse(told, "address")
    publish(told, 1, 2, 3)

    def handle(message, tx):
        if message.sequence == 3:
            raise ends
        return refused("address", message) if message.sequence == 2 else note(message)

    work_off(told, "shop", handle, fails=True)
    assert failed(told) == [(2, 1, "unexpected", "UsageError")]
    assert arrived(told) == [1]
    assert left(told) == 2


def test_a_refused_answer_in_a_queue_without_groups(box):
    prepare(box, policy=sq.Unordered(), group=None, sequence=None, retry=sq.Retry(1, delay=0))
    publish(box, *range(1, 41))
    wrong, ids = {7, 8, 20, 40}, {}

    def handle(message, tx):
        ids[message.message_id] = message.context["version"]
        return refused("address", message) if message.context["version"] in wrong else note(message)

    work_off(box, "shop", handle, fails=True)
    assert sorted(arrived(box)) == [one for one in range(1, 41) if one not in wrong]
    assert {ids[one.message_id] for one in messages.messages(box, status="dead")} == wrong
    assert invariants.broken(box) == []


def test_an_answer_to_a_queue_that_has_room_later(told):
    """A turn doesn't wait for as long as it may take: then its end would be put down to the wrong message."""
    define(told, retry=sq.Retry(1))
    told.define(
        sq.Queue("tight", policy=sq.Unordered(), max_messages=1),
        sq.Subscription("tight", where="type = 'tight'", to="tight"),
    )
    told.publish(sq.Message(type="tight"))
    publish(told, 1, 2, 3)

    def handle(message, tx):
        if message.sequence == 3:
            see(told, message, tx)
        return note(message, kind="tight" if message.sequence == 1 else "note")

    work(told, handle, workers=1, turn_limit=1, done=lambda: failed(told))
    assert failed(told) == [(1, 1, "timeout", "TurnLimit")]
    assert left(told) == 3


def test_a_turn_waits_for_room(told):
    """Before its handlers are called once more."""
    told.define(
        sq.Queue("tight", policy=sq.Unordered(), max_messages=2),
        sq.Subscription("tight", where="type = 'tight'", to="tight"),
    )
    told.publish(sq.Message(type="tight"))
    publish(told, 1, 2)
    handled, all_handled = [], threading.Event()

    def handle(message, tx):
        handled.append(message.sequence)
        if message.sequence == 2:
            all_handled.set()
        return note(message, kind="tight")

    with working(sq.Worker(told, "shop", handle, workers=1)):
        assert all_handled.wait(DEADLINE_S)
        until(
            lambda: rows(told, "SELECT FROM pg_stat_activity WHERE query LIKE '%room_in%' AND pid <> pg_backend_pid()")
        )
        work_off(told, "tight", lambda message, tx: None)
        until(lambda: not left(told))
    assert handled == [1, 2]


def test_an_answer_that_waits_for_somebody_else_s_commit(told):
    """The end of the turn isn't put down to the message whose handler only uses the connection."""
    publish(told, 1, 2, 3)

    def handle(message, tx):
        if message.sequence == 3:
            see(told, message, tx)
            return None
        return note(message, message_id=f"m{message.sequence}")

    with told.session() as tx:
        tx.publish(sq.Message(type="note", message_id="m1", context={"customer": "y", "of": 0}))
        work(told, handle, workers=1, turn_limit=1, done=lambda: failed(told))
    assert [one for one, *_ in failed(told)] in ([2], [2, 1])  # it is 1, and only alone that is known
    work_off(told, "shop", handle)
    assert len(messages.messages(told, queue="told")) == 2
    assert seen(told) == [("c1", 3)]


def test_a_run_that_is_longer_than_a_queue_has_room(told):
    told.define(sq.Queue("told", policy=sq.Fifo(), group="customer", max_messages=3))
    publish(told, *range(1, 11))
    got = []
    with working(sq.Worker(told, "told", lambda message, tx: got.append(message.context["of"]), workers=1)):
        work(told, lambda message, tx: note(message), workers=1)
        until(lambda: len(got) == 10)
    assert got == list(range(1, 11))
    assert failed(told) == []


def test_two_workers_that_lock_each_other_out(told):
    """Each has published an id that the other one publishes, too: one of them is refused, and does it again."""
    define(told, retry=sq.Retry(1))
    publish(told, 1, 2, 3, customer="a")
    publish(told, 1, 2, 3, customer="b")
    both, met = threading.Barrier(2), set()

    def handle(message, tx):
        group, n = message.group, message.sequence
        if n == 1:
            return note(message, message_id=f"of {group}")
        if n == 2:
            see(told, message, tx)  # which publishes the first
            if group not in met:
                met.add(group)
                both.wait(DEADLINE_S)
            return note(message, message_id=f"of {'b' if group == 'a' else 'a'}")
        return None

    work(told, handle, workers=2)
    assert len(arrived(told)) == 2
    assert sorted(seen(told)) == [("a", 2), ("b", 2)]
    assert failed(told) == []


def test_a_worker_that_knows_old_definitions(told):
    publish(told, 1, 2, 3)
    with sq.MessageBox.open(told.dsn, schema=told.schema) as other:
        other.definitions()

        def handle(message, tx):
            if message.sequence == 2 and not told.definitions().queues.get("newer"):
                told.define(
                    sq.Queue("newer", policy=sq.Fifo(), group="customer"), sq.MessageType("newer", {"customer": "string"}),
                    sq.Subscription("newer", where="type = 'newer'", to="newer"),
                )  # fmt: skip
            return [note(message), sq.Message(type="newer", context={"customer": "x", "of": message.sequence})]

        told.define(sq.MessageType("newer", {"customer": "string", "of": "long"}))
        work_off(other, "shop", handle)
    assert arrived(told) == [1, 2, 3]
    assert failed(told) == []


def test_instances_have_one_message_in_a_turn(told):
    told.define(
        sq.Queue("flow", policy=sq.Fifo(), group="customer", errors="continue", retry=sq.Retry(1)),
        sq.Subscription("start", where="type = 'order'", to="flow", starts="a:b", correlate=["customer"]),
    )
    publish(told, 1, 2, 3, 4)

    def handle(message, tx):
        tx.instance.state.setdefault("versions", []).append(message.context["version"])
        return refused("address", message) if message.context["version"] == 3 else note(message)

    work_off(told, "flow", handle, fails=True)
    assert arrived(told) == [1, 2, 4]
    assert calls(told) == [1, 1, 1]
    assert [one.state for one in rows(told, "SELECT state FROM {schema}.known_instances")] == [{"versions": [1, 2, 4]}]
    assert len(failed(told, "flow")) == 1


@pytest.mark.parametrize(
    "options", [{"pace": sq.Pace(rate=1000)}, {"pace": sq.Pace(run_length=2)}, {"batch": True}, {"mode": "leased"}]
)
def test_other_ways_to_work_come_to_the_same(told, options):
    define(told, retry=sq.Retry(2, delay=0), errors="continue")
    publish(told, *range(1, 8))

    def handle(given, tx):
        published = []
        for message in given if options.get("batch") else [given]:
            if message.sequence == 4:
                see(told, message, tx)
            published += [refused("address", message)] if message.sequence == 3 else [note(message)]
        return published

    work_off(told, "shop", handle, fails=True, **options)
    assert arrived(told) == [1, 2, 4, 5, 6, 7]
    assert failed(told)[-1] == (3, 2, "unexpected", "UsageError")
    assert seen(told) == [("c1", 4)]


def test_a_coroutine_that_gives_up_while_an_earlier_answer_is_published(told):
    define(told, retry=sq.Retry(1), errors="continue")
    publish(told, 1, 2, 3)
    handled = []

    async def handle(message, tx):
        handled.append(message.sequence)
        if message.sequence == 2:
            if handled.count(2) == 1:
                publishing = asyncio.ensure_future(tx.publish(note(message, "published")))
                await asyncio.to_thread(until, lambda: rows(told, "SELECT FROM pg_locks WHERE NOT granted"))
                publishing.cancel()
                with suppress(asyncio.CancelledError):
                    await publishing
                other.connection.rollback()
            else:
                await tx.publish(note(message, "published"))
        return note(message, message_id=f"m{message.sequence}")

    with told.session() as other:
        other.publish(sq.Message(type="note", message_id="m1", context={"customer": "y", "of": 0}))
        work_off(told, "shop", handle)
    assert handled == [1, 2, 1, 2, 3]
    assert arrived(told) == [1, "published", 2, 3]
    assert failed(told) == []


@pytest.mark.parametrize("how", ["address", "trigger"])
def test_coroutines(told, how):
    define(told, retry=sq.Retry(1), errors="continue")
    refuse(told, how)
    publish(told, *range(1, 7))

    async def handle(message, tx):
        match message.sequence:
            case 2:
                await tx.publish(note(message, "published"))
            case 4:
                return refused(how, message)
            case 5:
                with suppress(Exception):
                    await tx.publish(note(message, "too"))
        return note(message)

    work_off(told, "shop", handle, fails=True)
    assert arrived(told) == [1, "published", 2, 3, "too", 5, 6]
    assert failed(told) == [(4, 1, *HOW[how])]


def origins(box):
    """Of what came to the gate: the place, what it says, the id of its cause."""
    query = (
        "SELECT (context ->> 'origin_ordinal')::int AS place, context ->> 'kind' AS kind, context ->> 'parent_id' AS cause"
        " FROM {schema}.messages WHERE type = 'out' ORDER BY place, kind"
    )
    return [tuple(one) for one in rows(box, query)]


def test_each_answer_has_the_origin_of_its_own_message(gated):  # noqa: F811
    """Also an `Answer` for another one, and beside what handlers publish."""
    gated.publish([job(str(n)) for n in range(1, 6)])
    first = []

    def handle(message, tx):
        n = message.context["kind"]
        first.append(message)
        if n == "3":
            tx.publish(out("3 published"))
        return sq.Answer(first[0], out("4 for 1")) if n == "4" else out(n)

    work_off(gated, "work", handle)
    ids = [one.message_id for one in first]
    assert origins(gated) == [
        (1, "1", ids[0]), (1, "4 for 1", ids[0]), (2, "2", ids[1]), (3, "3", ids[2]), (3, "3 published", ids[2]), (5, "5", ids[4]),
    ]  # fmt: skip
    assert invariants.broken(gated) == []


def test_two_messages_in_hand_with_the_same_id_have_their_own_origins(gated):  # noqa: F811
    """Each role that publishes has its own ids."""
    roles.make(gated, "eve")
    grant(gated, "eve", publish=["work"])
    with roles.as_role(gated, "eve") as eve:
        for box, n in ((gated, "1"), (eve, "2")):
            box.publish(job(n, message_id="same"))
    gated.publish(job("3"))
    work_off(gated, "work", lambda message, tx: out(message.context["kind"]))
    assert [(place, kind) for place, kind, _ in origins(gated)] == [(1, "1"), (2, "2"), (3, "3")]


def test_a_cause_is_the_message_that_is_named_not_another_one_with_its_id(gated):  # noqa: F811
    roles.make(gated, "eve")
    grant(gated, "eve", publish=["work"])
    with roles.as_role(gated, "eve") as eve:
        for box, n in ((gated, "1"), (eve, "2")):
            box.publish(job(n, message_id="same"))
    with gated.session() as tx:
        delivery = tx.receive("work", limit=2)
        for message in reversed(delivery.messages):
            tx.publish(out(message.context["kind"]), cause=message)
        delivery.done()
    assert [(place, kind) for place, kind, _ in origins(gated)] == [(1, "1"), (2, "2")]


def test_an_answer_whose_cause_is_not_in_hand(gated):  # noqa: F811
    gated.define(
        sq.Queue(
            "work",
            sq.Fifo(),
            group="location_key",
            gate=sq.Gate("out", through=["price"]),
            errors="continue",
            retry=sq.Retry(1),
        )
    )
    gated.publish([job(str(n)) for n in range(1, 4)])
    with gated.session() as tx:
        (elsewhere,) = tx.receive("work").messages

    def handle(message, tx):
        stranger = sq.Received(
            type="order", ticket=elsewhere.ticket, received_at=elsewhere.received_at, message_id="a stranger"
        )
        return sq.Answer(stranger, out("2")) if message.context["kind"] == "2" else out(message.context["kind"])

    work_off(gated, "work", handle, fails=True)
    (fault,) = faults.faults(gated, "work")
    assert "can't be the cause: it is not in hand" in fault.error
    assert [kind for _, kind, _ in origins(gated)] == ["1", "3"]
