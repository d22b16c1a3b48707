"""Fills every table of a box, through what users call: the box that an upgrade has to understand.

The body of each message that will leave a queue is a number, which ascends in the order in which its group leaves it. What
is added to a box later is filled here, too, and then a dump is made of it: see `dump.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
from psycopg import sql

import seriatim as sq
from seriatim.box.faults.lease import claim
from seriatim.box.pipelines.dialog_staging import DialogStaging, Speaker
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging
from seriatim.box.workers.heartbeat import Process, Report, beat
from seriatim.operations import (
    bulk_operations,
    dead_letters,
    groups,
    instances,
    links,
    messages,
    queues,
    retention,
    tokens,
)
from seriatim.operations.grants import grant
from seriatim.operations.links import transmit
from tests.box.given_up import given_up

__all__ = ["DEFINED", "ROLES", "SCHEMA", "empty_tables", "filled", "make_roles"]

SCHEMA = "seriatim"
#: The roles of applications that have rights in the box.
ROLES = _ROUTER, _RECEIVER = ("seriatim_router", "seriatim_receiver")
_BY = {"actor": "ann", "reason": "ticket 4711"}
#: A box may be older than any period of it when it is restored.
_LEASE_US = 1
_FOR_EVER = "9000d"
_PATIENCE_S = 120.0

_PROPERTIES = {"customer": "string", "version": "long", "size": "long", "amount": "decimal(12,2)", "at": "timestamp"}
_NUMBERED = {"group": "customer", "sequence": "version"}
DEFINED = (
    sq.Location("crm", last_number=3),
    sq.MessageType("order", properties=_PROPERTIES),
    sq.MessageType("paid", properties={"customer": "string", "shipment": "string"}),
    sq.Queue("standard", policy=sq.Standard(hole_timeout=_FOR_EVER, on_hole="skip"), **_NUMBERED),
    sq.Queue("from-first", policy=sq.Standard(start="first", late="suspend"), **_NUMBERED),
    sq.Queue("fifo", policy=sq.Fifo(), group="customer", keep="everything"),
    sq.Queue("best-effort", policy=sq.BestEffort(window=_FOR_EVER), **_NUMBERED),
    sq.Queue("by-time", policy=sq.BestEffort(by="time"), group="customer", sequence="at"),
    sq.Queue("sets", policy=sq.UnitOfWork(size="size", timeout=_FOR_EVER), **_NUMBERED),
    sq.Queue("loose", policy=sq.Unordered(), max_messages=sq.Limit(1000, when_full="refuse")),
    sq.Queue("failing", policy=sq.Fifo(), group="customer"),
    sq.Queue("leased", policy=sq.Fifo(), group="customer"),
    sq.Queue("loose-leased", policy=sq.Unordered()),
    sq.Queue("piped", policy=sq.Standard(), **_NUMBERED),
    sq.Queue("work", policy=sq.Fifo(), group="customer"),
    sq.Queue("idle", policy=sq.Fifo(), group="customer"),
    sq.Queue("off", policy=sq.Fifo(), group="customer", enabled=False),
    sq.Queue("gate", sq.Standard(), "origin_group", "origin_ordinal"),
    sq.Queue("gated", policy=sq.Unordered(), group="customer", gate="gate"),
    sq.Subscription("large", where="type = 'order' AND amount >= 1000", to="fifo"),
    sq.Subscription("large-too", where="type = 'order' AND amount >= 1000", to="loose"),
    sq.Subscription("stopped", where="type = 'order' AND customer = 'late'", to="fifo", state="stopped"),
    sq.Subscription("starts", "type = 'order' AND customer LIKE 'i%'", "work", starts="orders.work:handle",
                    correlate=["customer", "shipment"]),
    sq.Contract("AddItem", {"AddItem": "initiator", "ItemAdded": "target", "Note": "any"}),
    sq.Service("Orders", queue="orders", contracts=["AddItem"]),
    sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    sq.Service("Keeper", queue="keeping", contracts=["AddItem"], retention=True),
    sq.BoxSettings(unrouted="keep"),
    sq.Schedule("yearly", cron="0 0 1 1 *", type="order", context={"to": "loose"}, catch_up="all"),
)  # fmt: skip


class _Numbers:
    """Messages with numbers as bodies."""

    def __init__(self) -> None:
        self._last = 0

    def body(self) -> bytes:
        self._last += 1
        return b"%06d" % self._last

    def order(self, queue: str | None, customer: str | None, version: int | None = None, **more: Any) -> sq.Message:
        context = {"customer": customer, "version": version, "to": queue, **more}
        known = {name: value for name, value in context.items() if value is not None}
        return sq.Message(type="order", body=self.body(), context=known)


@contextmanager
def filled(dsn: str) -> Iterator[sq.MessageBox]:
    """A box with rows in every table, as long as the block lasts: some are only there while somebody waits."""
    with psycopg.connect(dsn) as connection:
        make_roles(connection)
    with sq.MessageBox.open(dsn, schema=SCHEMA) as box:
        box.define(*DEFINED)
        grant(
            box,
            _ROUTER,
            publish=["fifo", "loose", "idle"],
            receive=["fifo"],
            subscribe=["loose"],
            types=["order"],
            route=True,
        )
        grant(box, _RECEIVER, receive=["idle"])
        retention.purge(box)
        numbers = _Numbers()
        _place(box, numbers)
        _publish(box, numbers)
        _judge(box)
        _fail(box, numbers)
        _start(box, numbers)
        _talk(box)
        _link(box, numbers)
        _send_to_regions(box, numbers)
        _lease(box, numbers)
        _pipe(box, numbers)
        _leave_over(box, numbers)
        queues.set_queue(box, "fifo", workers=2, in_flight=3, rate=100, run_length=5, **_BY)
        _act_on_many(box)
        _ask(box, numbers)
        _beat(box)
        _read_a_port(box)
        _let_a_caller_in(box)
        with _waiting(box):
            _hear(box)
            yield box


def _act_on_many(box: sq.MessageBox) -> None:
    """A bulk operation that waits to be begun."""
    views = groups.groups(box, "failing", state="faulted")
    bulk_operations.gather(box, groups.Action.RETRY, views, chosen_by={"queue": "failing"}, **_BY)


def _ask(box: sq.MessageBox, numbers: _Numbers) -> None:
    """A request that has a reply."""
    pending = box.request(numbers.order("loose", "asks", 1), reply="answer")
    box.publish(sq.Message(type="answer", context={"correlation_id": pending.id}))


def make_roles(connection: psycopg.Connection) -> None:
    """The roles that have rights in the box."""
    for role in ROLES:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))


def empty_tables(dsn: str) -> list[str]:
    """The tables of the box that have no row."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT relispartition ORDER BY relname",
            [SCHEMA],
        ).fetchall()
        found = sql.SQL("SELECT EXISTS (SELECT FROM {})")
        return [
            name
            for (name,) in tables
            if connection.execute(found.format(sql.Identifier(SCHEMA, name))).fetchone() == (False,)
        ]


def _publish(box: sq.MessageBox, numbers: _Numbers) -> None:
    order = numbers.order
    box.publish([order("standard", "whole", n) for n in range(1, 6)])
    box.publish([order("standard", "hole", n) for n in (1, 2, 5, 6)])
    box.publish([order("standard", "twice", n) for n in (1, 1, 2)])
    box.publish([order("standard", "first missing", n) for n in (2, 3)])
    box.publish([order("standard", "no step", 0), order("standard", None, 1)])
    box.publish([order("from-first", "late", n) for n in (7, 8, 6)])
    box.publish([order("fifo", "a", amount="5.00"), order("fifo", "b")])
    box.publish(
        [sq.Message(type="order", body=numbers.body(), context={"customer": "a", "to": "fifo"},
                    parts=[sq.Part("note", "text/plain", b"n"), sq.Part("scan", None, b"\0\1")])]
    )  # fmt: skip
    box.publish(
        [order(None, "a", amount="1234.50"), order(None, "late", amount="1.00"), order(None, "b", amount="2000")]
    )
    box.publish([order("best-effort", "a", n) for n in (3, 4, 9)])
    box.publish([order("by-time", "a", at=f"2026-01-0{n}T00:00:00Z") for n in (1, 2)])
    box.publish([order("sets", "whole", n, size=2) for n in (1, 2)])
    box.publish([order("sets", "part", n, size=3) for n in (1, 3)])
    box.publish([order("loose", None), order("loose", None)])
    box.publish([order("loose", None)], delay=_FOR_EVER)
    box.publish([order("off", "a"), order("off", "a")])
    box.publish(order("off", "unique"), unique="a key")
    box.publish([order("idle", "suspended"), order("idle", "closed"), order("idle", "aborted")])
    box.publish([sq.Message(type="odd", body=b"nobody wants it")])
    with box.session() as tx:
        assert len(tx.dispense("crm", count=7).ranges) == 3
        tx.publish(order("fifo", "b", location="crm"))


def _judge(box: sq.MessageBox) -> None:
    """Some of it is done, some is judged and waits, some is set aside; operators act."""
    for queue in ("standard", "from-first", "best-effort", "by-time", "sets"):
        for one in groups.groups(box, queue):
            with box.session() as tx:
                if (delivery := tx.receive(queue, group=one.group, limit=100)) is not None:
                    delivery.put_back()
    with box.session() as tx:
        delivery = tx.receive("standard", limit=2, group="whole")
        assert [one.sequence for one in delivery] == [1, 2]
    with box.session() as tx:
        assert len(list(tx.receive("fifo", limit=1, group="a"))) == 1
    groups.suspend(box, "idle", "suspended", **_BY)
    groups.close(box, "idle", "closed", **_BY)
    groups.abort(box, "idle", "aborted", **_BY)


def _fail(box: sq.MessageBox, numbers: _Numbers) -> None:
    """A message that its handler can't do: faults, a body that was edited, a dead letter, and a group that stays faulted."""
    given = [numbers.order("failing", customer) for customer in ("edited", "dead", "faulted") for _ in range(2)]
    box.publish(given)

    def fail(_message: sq.Received, _tx: sq.Session) -> None:
        raise sq.Business("no")

    worker = sq.Worker(box, "failing", fail, workers=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        _until(lambda: len(groups.groups(box, "failing", state="faulted")) == 3)
    finally:
        worker.stop()
        thread.join()
    groups.retry(box, "failing", "edited", body=given[0].body, **_BY)
    groups.skip_message(box, "failing", "dead", **_BY)


def _place(box: sq.MessageBox, numbers: _Numbers) -> None:
    """Places at a gate: one that has passed, one that is open, and behind it that of a message that came back too late for its own."""
    first, second = (numbers.order("gated", "a") for _ in range(2))
    box.publish([first, second])
    messages.take_out(box, [first.message_id], queue="gated", **_BY)
    box.tick()
    (dead,) = dead_letters.dead_letters(box, "gated")
    dead_letters.requeue(box, dead.entry_id, **_BY)
    with box.session() as tx:
        (one,) = tx.receive("gated", limit=1)
        assert one.message_id == first.message_id
        tx.publish(numbers.order("gate", "a"), cause=one)


def _start(box: sq.MessageBox, numbers: _Numbers) -> None:
    """An instance that runs, and is found by a value; and one that is suspended."""
    for customer in ("i1", "i2"):
        box.publish([numbers.order(None, customer)])
        with box.session() as tx:
            for _ in tx.receive("work"):
                tx.instance.state["customer"] = customer
                tx.instance.correlate(shipment=f"s-{customer}")
    box.publish([sq.Message(type="paid", body=numbers.body(), context={"shipment": "s-i1"}) for _ in range(2)])
    instances.suspend(box, instances.instances(box)[-1].instance_id, **_BY)


def _talk(box: sq.MessageBox) -> None:
    """Dialogs in every state, what can't be delivered yet, what is retained, and a message that was rolled back."""
    with box.session() as tx:
        waits = tx.begin_dialog("Orders", "Nowhere", contract="AddItem")
        tx.send(waits, "AddItem", b"000001")
        tx.begin_dialog("Orders", "Inventory", contract="AddItem", lifetime=_FOR_EVER)
        open_ = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        for n in range(1, 4):
            tx.send(open_, "AddItem", b"%06d" % n)
        tx.set_timer(open_, _FOR_EVER)
        keeps = tx.begin_dialog("Keeper", "Inventory", contract="AddItem")
        tx.send(keeps, "AddItem", b"000001")
        failed = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send(failed, "AddItem", b"000001")
        monolog = tx.begin_monolog("Orders", ["Inventory"], contract="AddItem")
        tx.send(monolog, "AddItem", b"000001")
    with box.session() as tx:
        tx.end(failed, error=(7, "broken"))
    with box.session() as tx:
        ended = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send(ended, "AddItem", b"000001")
        tx.end(ended)
    with given_up(box.session()) as tx:  # and so it is counted, when it is received again
        assert tx.receive("inventory") is not None
    with given_up(box.session()) as tx:
        assert tx.receive("inventory") is not None
    with box.session() as tx:
        over = tx.begin_dialog("Keeper", "Orders", contract="AddItem")
        tx.send(over, "AddItem", b"000001")
        tx.end(over)
    with box.session() as tx:
        for message in tx.receive("orders", limit=10):
            tx.end(message.dialog.handle)


def _lease(box: sq.MessageBox, numbers: _Numbers) -> None:
    box.publish([numbers.order(queue, "a") for queue in ("leased", "loose-leased") for _ in range(3)])
    for queue in ("leased", "loose-leased"):
        with box.session() as tx:
            delivery = tx.receive(queue, limit=2)
            claim(tx.transaction, delivery, 2, "worker-1", _LEASE_US)
    box.publish(numbers.order("leased", "b"))
    assert box.lease("leased", lease=_LEASE_US / 1e6, group="b", attempt_id="x") is not None
    with box.session() as tx:
        queue = tx.access.known.definitions.queue("fifo")
        tx.transaction.do("begin_trial", of_queue=queue.queue_id, of_group="a", how_many=1)


def _pipe(box: sq.MessageBox, numbers: _Numbers) -> None:
    """A pipeline reads a queue and has a batch in hand; another one has written batches, and a third part lies there."""
    box.publish([numbers.order("piped", "a", n) for n in range(1, 5)])
    with PipelineFeed(box.dsn, box.schema, queue="piped", pipeline="capture") as feed:
        assert feed.next("", 0, None)[2] == 4
    rows = pa.RecordBatch.from_pydict(
        {"type": ["order"], "customer": ["piped in"], "body": [numbers.body()], "parts": [[{"name": "n", "body": b"p"}]]},
        schema=pa.schema(
            [("type", pa.string()), ("customer", pa.string()), ("body", pa.binary()),
             ("parts", pa.list_(pa.struct([("name", pa.string()), ("content_type", pa.string()), ("body", pa.binary())])))]
        ),
    )  # fmt: skip
    with Staging(box.dsn, box.schema, queue="fifo", incoming=Incoming("order")) as staging:
        staging.merge("writer", 0, [staging.stage("writer", 0, [rows])])
        staging.stage("writer", 1, [rows])
    said = pa.RecordBatch.from_pydict({"type": ["AddItem"], "customer": ["talks"], "body": [b"000001"]})
    speaker = Speaker("Orders", "Inventory", "AddItem")
    with DialogStaging(box.dsn, box.schema, speaker=speaker, incoming=Incoming("AddItem", "customer")) as talking:
        talking.merge("talker", 0, [talking.stage("talker", 0, [said])])
        talking.stage("talker", 1, [said])


def _leave_over(box: sq.MessageBox, numbers: _Numbers) -> None:
    """What the next call of somebody would take away."""
    with box.session() as tx:  # the last reference but one of a message
        assert len(list(tx.receive("loose", limit=10))) > 2
    with given_up(box.session()) as tx:
        assert tx.receive("fifo", group="b") is not None
        groups.suspend(box, "fifo", "b", **_BY)  # obeyed by its next turn
    groups.resume(box, "fifo", "b", **_BY)
    with box.session() as tx:
        tx.connection.execute(
            f"SELECT {SCHEMA}.publish('order', %s, %s)", [numbers.body(), '{"customer": "sql", "to": "fifo"}']
        )
    with psycopg.connect(box.dsn) as connection:  # nobody should, and somebody does
        connection.execute(f"ALTER TABLE {SCHEMA}.arrivals DISABLE TRIGGER number_at_commit")
        with box.session(connection) as tx:
            tx.publish(numbers.order("idle", "not numbered"))
        connection.execute(f"ALTER TABLE {SCHEMA}.arrivals ENABLE ALWAYS TRIGGER number_at_commit")


def _beat(box: sq.MessageBox) -> None:
    """A process works on a queue, and is killed."""
    process = Process(UUID(int=1), "here:1.1", "here", 1)
    with box.access.transaction() as transaction:
        beat(transaction, process, [Report("leased", "leased", 8, 8, 50, None, [("a", 1, 0.5)])])
        transaction.do(
            "judge", of_process=process.process_id, its_name="here", its_host="here", its_pid=1, its_backend=0
        )
        assert transaction.rows("receive", queue="leased")[0].reason.startswith("nobody judges")


def _let_a_caller_in(box: sq.MessageBox) -> None:
    """A caller over HTTP has a token."""
    tokens.create_token(box, "shop", role=_ROUTER, publish=["fifo"])


def _read_a_port(box: sq.MessageBox) -> None:
    """A process reads a partition of a port, and is killed."""
    with box.access.transaction() as transaction:
        transaction.one(
            "claim_port",
            of_port="kafka-orders",
            of_partition="orders/0",
            of_kind="kafka",
            by_holder="here/1",
            period="15 s",
        )


def _link(box: sq.MessageBox, numbers: _Numbers) -> None:
    """Streams to another box and from it, of which one is over and one can't be sent. The other box is a schema for as long as that takes."""
    with sq.MessageBox.open(box.dsn, schema="far") as far:
        operation = {"role": _RECEIVER, "other": str(box.id), "queues": ["loose"], "services": ["Orders"], **_BY}
        far.define(
            *(one for one in DEFINED if isinstance(one, sq.MessageType | sq.Contract)),
            sq.Queue("loose", policy=sq.Unordered()),
            sq.Service("Far", queue="far", contracts=["AddItem"]),
        )
        links.accept(far, "filled", **operation)
        dsn = psycopg.conninfo.make_conninfo(box.dsn, user=_RECEIVER)
        box.define(
            sq.Link("far", dsn=dsn, schema="far", queues=["linked"]),
            sq.Queue("far-loose", at=sq.Remote("far", queue="loose", lanes=1), policy=sq.Unordered()),
            sq.Queue("far-refused", at="far", group="customer"),
            sq.Queue("linked", group="customer"),
            sq.Service("Far", at="far"),
        )
        with box.session() as tx:
            tx.send(tx.begin_dialog("Orders", "Far", contract="AddItem"), "AddItem", b"1")
        far.define(sq.Queue("linked", at="filled", group="customer"))
        box.publish([numbers.order("far-loose", None), numbers.order("far-refused", "a")])
        far.publish(numbers.order("linked", "a"))
        # Of a large one the first fragments have come.
        far.publish(sq.Message(type="order", body=bytes(5 * 2**20), context={"to": "linked", "customer": "b"}))
        assert transmit(box)[0].received == 1
        box.tick()
    with psycopg.connect(box.dsn) as connection:
        connection.execute("DROP SCHEMA far CASCADE")


def _hear(box: sq.MessageBox) -> None:
    """A record of a dialog with the other box that isn't obeyed yet, and one that hasn't left."""
    with box.access.transaction() as transaction:
        transaction.connection.execute(
            f"SELECT {SCHEMA}.link_take_record(link_id, jsonb_build_object('kind', 'gone', 'conversation', conversation_id, 'initiator', FALSE, "
            f"'number', ARRAY[1, 1], 'code', -4, 'text', 'over'), '', FALSE), "
            f"{SCHEMA}.say(link_id, conversation_id, TRUE, 'error', opened_in, number, 1, 'no') FROM {SCHEMA}.endpoints WHERE number IS NOT NULL"
        )


def _send_to_regions(box: sq.MessageBox, numbers: _Numbers) -> None:
    """A message that the other region has, and one that it lacks. That one and the journal are schemas for as long as that takes."""
    with (
        sq.MessageBox.open(box.dsn, schema="far") as far,
        sq.Regions(box, far, box.dsn, name="filled", confirm="one", patience=_PATIENCE_S) as regions,
    ):
        regions.define(
            *(one for one in DEFINED if isinstance(one, sq.MessageType)),
            sq.RegionalQueue("regional", group="customer", sequence="version"),
        )
        regions.publish(numbers.order("regional", "a", 1))
        assert [one.copied for one in regions.tend()] == [1, 0]
        regions.publish(numbers.order("regional", "a", 2))
        with (
            sq.Regions(box, far, box.dsn, name="filled", numbers="journal", patience=_PATIENCE_S) as reserving,
            psycopg.connect(box.dsn) as connection,
        ):
            reserving.publish(numbers.order("regional", "b"), connection=connection)
    with psycopg.connect(box.dsn) as connection:
        connection.execute("DROP SCHEMA far CASCADE")
        connection.execute("DROP SCHEMA seriatim_journal CASCADE")


@contextmanager
def _waiting(box: sq.MessageBox) -> Iterator[None]:
    """A receiver waits that may not route, until a message comes."""
    stop = threading.Event()

    def wait() -> None:
        with sq.MessageBox.open(box.dsn.replace("seriatim@", f"{_RECEIVER}@"), schema=SCHEMA) as limited:
            while not stop.is_set():
                with limited.session() as tx:
                    tx.receive("idle", group="nobody", wait=0.5)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        _until(lambda: "waiters" not in empty_tables(box.dsn))
        yield
    finally:
        stop.set()
        thread.join()


def _until(condition: Any) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
