"""Bad input: what is unknown, what tries to be SQL, what is too large, and what text can't hold; and a server that goes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from uuid import uuid4

import psycopg
import pytest
from psycopg.pq import TransactionStatus

import seriatim as sq
from seriatim.box.operators.resubmit import Resubmitted
from seriatim.box.postgres.translate import translated
from seriatim.box.publishing import batch as sending
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.box.views.groups import GroupFilter, groups_of
from seriatim.box.views.message_places import MessageFilter, places_of
from seriatim.operations import dead_letters, groups, queues, subscriptions
from seriatim.operations import messages as message_operations
from seriatim.operations.faults import fault_view
from seriatim.operations.grants import grant, revoke
from seriatim.operations.instances import instances
from seriatim.operations.messages import resubmit
from tests.command import environment
from tests.databases import box_with
from tests.soak import sized

#: Each would do harm where a text became part of a statement, a filter, an array or a pattern.
NASTY = (
    "it's",
    "x'; DROP TABLE entries; --",
    'x"; DROP SCHEMA public CASCADE; --',
    "$function$; SELECT 1; $function$",
    "%(queue_id)s",
    "{schema}",
    "{1,2,NULL}",
    "a\\'b\\",
    "100%_",
    "null",
    "zwölf ☃ \U0001f600",
    "line\nfeed\ttab",
    "' OR '1' = '1",
)


def with_orders(box):
    """A box with a queue, `orders`, that every order goes to."""
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Subscription("all", where="type = 'order'", to="orders"),
    )


queue = box_with(with_orders)
#: For calls that are refused.
shared = box_with(with_orders, scope="module")


def order(customer="a", version=1, **fields):
    return sq.Message(type="order", context={"customer": customer, "version": version}, **fields)


def publish(box, *messages):
    with box.session() as tx:
        return tx.publish(messages)


def received(box, name, **how):
    with box.session() as tx:
        return list(tx.receive(name, **how) or ())


def works(box):
    """Whether a message passes through it."""
    one = order(str(uuid4()))
    publish(box, one)
    return [message.message_id for message in received(box, "orders")] == [one.message_id]


def test_a_session_without_with_says_how_it_begins(queue):
    for use in (lambda tx: tx.publish([order()]), lambda tx: tx.receive("orders"), lambda tx: tx.connection):
        with pytest.raises(sq.UsageError, match=r"the session has not begun \(with box\.session\(\) as tx: tx\."):
            use(queue.session())
    assert not hasattr(queue.session(), "_repr_html_")
    assert not hasattr(queue.session(), "nothing")
    with queue.session() as tx:
        assert tx.receive("orders") is None


def received_none(box, name):
    with box.session() as tx:
        return tx.receive(name)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda box: received_none(box, "ordres"), "there is no queue 'ordres'.*did you mean 'orders'"),
        (lambda box: box.peek("ordres"), "there is no queue 'ordres'"),
        (lambda box: queues.turn_off(box, "ordres"), "no queue 'ordres'"),
        (lambda box: groups.forget(box, "ordres", "a"), "there is no queue 'ordres'"),
        (lambda box: subscriptions.stop(box, "al"), "no subscription 'al'"),
        (lambda box: box.drop(subscription="al"), "no subscription 'al'"),
        (lambda box: box.drop(type="ordr"), "no type 'ordr'"),
        (lambda box: box.drop(queue="ordres"), "no queue 'ordres'"),
        (lambda box: message_operations.message(box, "nobody"), "there is no message 'nobody'"),
        (lambda box: message_operations.messages(box, queue="ordres"), "there is no queue 'ordres'"),
        (lambda box: instances(box, "ordres"), "there is no queue 'ordres'"),
        (lambda box: message_operations.messages(box, status="lost"), "'lost' is not a status"),
        (lambda box: publish(box, sq.Message(type="order", context={"to": "ordres"})), "addressed to 'ordres', which is no queue"),
        (lambda box: box.define(sq.Subscription("s", where="TRUE", to="ordres")), "ordres"),
        (lambda box: box.define(sq.Subscription("s", where="costumer = 'a'", to="orders")), "costumer.*did you mean 'customer'"),
        (lambda box: box.define(sq.Queue("q", group="costumer")), "costumer"),
        (lambda box: box.define(sq.Queue("q", policy=sq.Unordered(), priority="levle")), "levle"),
    ],
)  # fmt: skip
def test_what_is_unknown_is_named(shared, call, what):
    before = shared.definitions()
    with pytest.raises(sq.UsageError, match=f"(?s){what}") as caught:
        call(shared)
    assert caught.value.remedy
    assert shared.definitions() == before


@pytest.mark.parametrize(
    "act",
    [
        lambda tx: tx.receive(None),
        lambda tx: tx.receive("orders", group=5),
        lambda tx: tx.receive("orders", wait=-1),
        lambda tx: tx.next_group(None),
        lambda tx: tx.publish(None),
        lambda tx: tx.publish(5),
        lambda tx: tx.publish(order(), wait=-1),
    ],
)
def test_what_can_be_no_argument_is_refused_and_nothing_is_done(queue, act):
    with queue.session() as tx:
        with pytest.raises(sq.UsageError):
            act(tx)
        tx.publish(order())
    assert [one.arrived for one in queues.queues(queue)] == [1]


def test_what_is_no_dsn_is_refused():
    with pytest.raises(sq.UsageError, match="int is not a DSN"):
        sq.MessageBox.open(5)


def test_messages_of_unknown_types_and_with_unknown_properties_are_kept_with_the_reason(queue):
    publish(queue, sq.Message(type="ordr"), sq.Message(type="order", context={"costumer": "a"}), order())
    assert [(one.type, one.reason) for one in message_operations.messages(queue, status="unrouted")] == [
        ("ordr", None), ("order", "type 'order' declares no property 'costumer'"),
    ]  # fmt: skip
    assert len(received(queue, "orders")) == 1


@pytest.mark.parametrize("text", NASTY)
def test_nothing_that_is_given_becomes_sql(queue, text):
    """Names of all kinds, values and keys are what they are, all the way."""
    with pytest.raises(sq.UsageError, match="can't be the name of a property") if text != "null" else nullcontext():
        sq.MessageType(text, properties={text: "string"})
    quoted = "'" + text.replace("'", "''") + "'"
    queue.define(
        sq.MessageType(text, properties={"customer": "string"}),
        sq.Queue(text, policy=sq.Fifo(), group="customer"),
        sq.Queue("rest", policy=sq.Unordered()),
        sq.Subscription(text, where=f"type = {quoted} AND customer = {quoted}", to=text),
        sq.Subscription("rest", where="type = 'free'", to="rest"),
    )
    given = sq.Message(
        type=text, message_id=text, content_type=text, body=text.encode(),
        context={"customer": text, "location": text, "correlation_id": text}, parts=[sq.Part(text, text, b"")],
    )  # fmt: skip
    publish(queue, sq.Message(type="free", context={text: text}))  # a type that nobody has declared
    assert [message.context for message in received(queue, "rest")] == [{text: text}]
    publish(queue, given)
    assert [(one.group, one.message.parts) for one in queue.peek(text, text)] == [(text, given.parts)]
    assert [one.queue for one in message_operations.messages(queue, queue=text, group=text, message_type=text)] == [
        text
    ]
    assert message_operations.message(queue, text)[0].body == text.encode()
    (message,) = received(queue, text, group=text)
    assert message.context == given.context
    assert (message.message_id, message.type, message.content_type, message.parts) == (text, text, text, given.parts)
    assert (message.subscriptions, message.ticket.location) == ((text,), text)
    subscriptions.stop(queue, text)
    subscriptions.start(queue, text)
    queues.turn_off(queue, text)
    queue.drop(subscription=text, queue=text, type=text)
    publish(queue, order())
    assert len(received(queue, "orders")) == 1


@pytest.mark.parametrize(
    "where",
    [
        "type = 'order'; DROP TABLE entries",
        "type = 'order' -- ",
        "type = 'it's'",
        "type = 'open",
        "1 = (SELECT 1)",
        "pg_sleep(10) IS NULL",
        "EXISTS (SELECT 1 FROM entries)",
        "current_user = 'seriatim'",
        "type = $1",
        "type = %(x)s",
        "type = 'order' AND",
        "type = ?",
    ],
)
def test_a_filter_that_is_none_is_refused_where_it_is_wrong(shared, where):
    with pytest.raises(sq.FilterError, match=r"subscription 's':1:\d+"):
        shared.define(sq.Subscription("s", where=where, to="orders"))
    assert "s" not in shared.definitions().subscriptions


NUL = "a\0b"


@pytest.mark.parametrize(
    "call",
    [
        lambda _: sq.Message(type=NUL),
        lambda _: sq.Message(type="order", message_id=NUL),
        lambda _: sq.Message(type="order", content_type=NUL),
        lambda _: sq.Part(NUL),
        lambda _: sq.Part("a", NUL),
        lambda _: sq.MessageType(NUL),
        lambda box: box.define(sq.MessageType("t", properties={NUL: "string"})),
        lambda _: sq.Queue(NUL),
        lambda box: box.define(sq.Queue("q", group=NUL)),
        lambda box: box.define(sq.Queue("q", group=sq.Group("customer", default=NUL))),
        lambda _: sq.Subscription(NUL, where="TRUE", to="orders"),
        lambda box: box.define(sq.Subscription("s", where=f"type = '{NUL}'", to="orders")),
        lambda _: sq.Location(NUL),
        lambda box: publish(box, order(NUL)),
        lambda box: publish(box, sq.Message(type="order", context={NUL: 1})),
        lambda box: publish(box, sq.Message(type="order", context={"location": NUL})),
        lambda box: publish(box, sq.Message(type="order", context={"to": NUL})),
        lambda box: publish(box, sq.Message(type="order", context={"correlation_id": NUL})),
        lambda box: dispense(box, NUL),
        lambda box: received_none(box, NUL),
        lambda box: received(box, "orders", group=NUL),
        lambda box: box.peek(NUL),
        lambda box: box.peek("orders", NUL),
        lambda box: subscriptions.stop(box, NUL),
        lambda box: queues.turn_off(box, NUL),
        lambda box: box.drop(queue=NUL),
        lambda box: resubmit(box, [NUL]),
        lambda box: message_operations.messages(box, group=NUL),
        lambda box: message_operations.message(box, NUL),
        lambda box: groups.forget(box, "orders", "a", reason=NUL),
        lambda _: sq.MessageBox.open(f"postgresql://me@127.0.0.1:1/{NUL}"),
        lambda box: sq.MessageBox.open(box.dsn, schema=NUL),
    ],
)
def test_nul_in_text(shared, call):
    """PostgreSQL can't keep it. Whoever gives it is told so, and nothing of the call is taken in."""
    with pytest.raises(sq.UsageError) as caught:
        call(shared)
    assert str(caught.value)
    assert works(shared)


def dispense(box, location):
    with box.session() as tx:
        tx.dispense(location)


def test_nul_in_a_body_is_a_byte_like_any_other_and_none_in_what_is_promoted_from_it(box):
    box.define(
        sq.MessageType("order", properties={"customer": {"type": "string", "path": "$.customer"}}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer"),
        sq.Subscription("all", where="customer IS NOT NULL", to="orders"),
    )
    bodies = [b'{"customer": "a\\u0000b"}', b'{"customer": "a", "note": "\\u0000"}', b"\0"]
    publish(box, *(sq.Message(type="order", body=body) for body in bodies))
    assert [message.body for message in received(box, "orders", limit=9)] == bodies[1:2]
    assert len(message_operations.messages(box, status="unrouted")) == 2


def test_ten_thousand_properties_that_are_declared(box):
    names = [f"property_{number}" for number in range(10_000)]
    box.define(
        sq.MessageType("wide", properties=dict.fromkeys(names, "long")),
        sq.Queue("wide", policy=sq.Fifo(), group=names[-1]),
        sq.Subscription("wide", where=f"{names[5000]} = 5000", to="wide"),
    )
    context = {name: number for number, name in enumerate(names)}
    publish(box, sq.Message(type="wide", context=context))
    (message,) = received(box, "wide")
    assert message.context == context


def test_a_body_of_no_bytes(queue):
    publish(queue, order(body=b"", parts=[sq.Part("none", None, b"")]))
    (message,) = received(queue, "orders")
    assert (message.body, message.parts) == (b"", (sq.Part("none", None, b""),))


def test_a_body_above_the_limit_is_refused_before_it_is_sent(queue):
    with queue.session() as tx:
        with pytest.raises(sq.UsageError, match=r"has 536,870,913 bytes \(at most 536,870,912; store it elsewhere"):
            tx.publish([order(), order("b", 1, body=bytes(sending.MOST_BODY_BYTES + 1))])
        assert tx.connection.info.transaction_status == TransactionStatus.IDLE
    assert received_none(queue, "orders") is None


#: Decimals whose digits PostgreSQL would write out, or can't have at all.
LONG_NUMBERS = ("1e5000", "1e-5000", "1E+999999", "1E-999999", "1." + "1" * 100, "-1e100")


@pytest.mark.parametrize("kind", ["order", "poison"])
@pytest.mark.parametrize("number", LONG_NUMBERS)
def test_a_number_of_too_many_characters_is_refused_before_it_is_sent(shared, kind, number):
    """Of a type that nobody has declared, and where a declared property is something else."""
    before = message_operations.messages(shared)
    message = sq.Message(type=kind, message_id="m", context={"version": Decimal(number)})
    with shared.session() as tx:
        with pytest.raises(sq.UsageError, match=r"message m: the property 'version'.*100 characters"):
            tx.publish([order(), message])
        assert tx.connection.info.transaction_status == TransactionStatus.IDLE
    with pytest.raises(sq.UsageError, match="message m: the property 'version'"):
        shared.publish(message)
    assert message_operations.messages(shared) == before


def test_numbers_of_as_many_characters_as_can_be_come_back(queue):
    given = {"long": Decimal("9" * 100), "small": Decimal("0." + "1" * 98), "far": Decimal("1e99"), "double": 1e308}
    queue.publish(sq.Message(type="poison", message_id="m", context=given))
    assert message_operations.message(queue, "m")[0].context == given
    assert resubmit(queue).left == 1
    queue.define(sq.MessageType("poison"), sq.Subscription("poison", where="type = 'poison'", to="orders"))
    assert resubmit(queue).left == 1


def test_whole_numbers_from_sql_that_are_no_long_are_resubmitted(queue):
    with queue.session() as tx:
        publish_sql = f"SELECT {queue.schema}.publish('poison', '', jsonb_build_object('x', 10::numeric ^ 30))"
        tx.connection.execute(publish_sql)
    queue.tick()
    assert resubmit(queue).left == 1


def test_a_property_that_cant_be_in_a_later_statement_of_the_call_takes_nothing_in(queue, monkeypatch):
    monkeypatch.setattr(sending, "_PORTION_BYTES", 10)
    with queue.session() as tx, pytest.raises(sq.UsageError, match="the property 'customer'"):
        tx.publish([order(body=bytes(10)), order(NUL, body=bytes(10))])
    assert message_operations.messages(queue) == []


@pytest.mark.parametrize("message_id", ["m" * 1025, "☃" * 342])
def test_a_message_id_that_is_too_long(queue, message_id):
    with pytest.raises(sq.UsageError, match=r"message_id.*1,024 bytes"):
        order(message_id=message_id)
    with queue.session() as tx:
        call = f"SELECT {queue.schema}.publish('order', '', message_id => %s)"
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="id of a message can have 1024 bytes at most"):
            tx.connection.execute(call, [message_id])
        tx.connection.rollback()


def test_a_message_id_that_is_as_long_as_can_be(queue):
    # What can't be compressed: an index would have it in a shorter form otherwise.
    named = [bytes(random.Random(seed).choices(range(33, 127), k=1024)).decode() for seed in range(2)]
    publish(queue, order(message_id=named[0]))
    with queue.session() as tx:
        context = '{"customer": "b", "version": 1}'
        tx.connection.execute(
            f"SELECT {queue.schema}.publish('order', '', %s::jsonb, message_id => %s)", [context, named[1]]
        )
    queue.tick()
    assert sorted(one.message_id for one in message_operations.messages(queue)) == sorted(named)


def test_keys_and_names_are_shorter_than_what_an_index_takes(queue):
    """The longest that are allowed, of what can't be compressed."""
    text = bytes(random.Random(1).choices(range(33, 127), k=1024)).decode()
    wide = "".join(map(chr, random.Random(1).choices(range(0x1F600, 0x1F640), k=128)))
    queue.define(
        sq.Queue(wide, policy=sq.Fifo(), group="customer"),
        sq.Subscription(wide, where="type = 'order'", to=wide),
        sq.Location(wide),
    )
    message = sq.Message(type=text * 9, context={"customer": text, "location": wide})
    publish(queue, message)
    publish(queue, sq.Message(type="order", context={"customer": text, "location": wide, "version": 1}))
    assert len(received(queue, wide, group=text)) == 1
    assert groups.forget(queue, wide, text, actor="a" * 256, reason="r" * 4096) == 1


def test_what_is_too_large_for_postgresql_is_the_callers_to_mend(queue):
    long = "SELECT string_agg(md5(one::text), '') FROM generate_series(1, 1000) one"
    with queue.session() as tx:
        tx.connection.execute("CREATE TEMPORARY TABLE kept (key text PRIMARY KEY)")
        with pytest.raises(sq.UsageError, match="make the value smaller"), translated("here"):
            tx.connection.execute(f"INSERT INTO kept {long}")
        tx.connection.rollback()


@pytest.mark.dear
def test_a_context_above_the_limit_is_refused_before_it_is_sent(queue):
    with queue.session() as tx:
        with pytest.raises(sq.UsageError, match=r"context of message m has .* bytes \(at most 268,435,455"):
            tx.publish(sq.Message(type="order", message_id="m", context={"customer": "x" * 2**28}))
        assert tx.connection.info.transaction_status == TransactionStatus.IDLE


_FIVE_HOURS_BEHIND = timezone(timedelta(hours=-5))


@pytest.mark.parametrize(
    "moment",
    [
        datetime.max,  # noqa: DTZ901 -- so for those that have none
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=_FIVE_HOURS_BEHIND),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
        datetime.now(UTC) + timedelta(days=10_001),
    ],
)
def test_a_moment_that_nobody_waits_for(shared, moment):
    with pytest.raises(sq.UsageError, match="visible_at can't be"):
        shared.publish(order(), visible_at=moment)


def test_moments_that_can_be(queue):
    late = datetime.now(UTC) + timedelta(days=9_999)
    begin = datetime.min.replace(tzinfo=UTC)
    for moment in (begin, datetime(2000, 1, 1, tzinfo=UTC), late, late.astimezone(_FIVE_HOURS_BEHIND)):
        queue.publish(order(str(moment)), visible_at=moment)
    for zone in ("Europe/Berlin", "America/New_York"):
        with queue.session() as tx:
            tx.connection.execute("SELECT set_config('timezone', %s, FALSE)", [zone])
            assert len(places_of(tx.transaction, MessageFilter())) == 4
            assert len(groups_of(tx.transaction, GroupFilter())) == 4


HALF = "a\ud800"


@pytest.mark.parametrize(
    "call",
    [
        lambda box: box.publish(order(version=datetime.max.replace(tzinfo=_FIVE_HOURS_BEHIND))),
        lambda box: box.publish(sq.Message(type="x", context={"at": datetime.min.replace(tzinfo=timezone(timedelta(1 / 24)))})),
        lambda _: sq.Message(type="order", context=None),
        lambda _: sq.Message(type="order", context=[]),
        lambda _: sq.Message(type="order", context="customer"),
        lambda _: sq.Message(type=HALF),
        lambda _: sq.Message(type="order", message_id=HALF),
        lambda box: box.publish(order(HALF)),
        lambda box: received_none(box, ["orders"]),
        lambda box: received_none(box, HALF),
        lambda box: received(box, "orders", group=HALF),
        lambda box: box.peek(HALF),
        lambda box: box.peek(["orders"]),
        lambda box: box.peek("orders", HALF),
        lambda box: message_operations.messages(box, message_type=HALF),
        lambda box: message_operations.messages(box, message_type=5),
        lambda box: message_operations.messages(box, group=5),
        lambda box: message_operations.messages(box, queue=["orders"]),
        lambda box: message_operations.messages(box, limit=-1),
        lambda box: message_operations.messages(box, limit="x"),
        lambda box: message_operations.message(box, HALF),
        lambda box: message_operations.message(box, 5),
        lambda box: groups.forget(box, "orders", HALF),
        lambda box: dispense(box, HALF),
        lambda box: box.drop(queue=5),
        lambda box: box.drop(queue=None),
        lambda box: box.drop(queue=[HALF]),
        lambda box: subscriptions.stop(box, 5),
        lambda box: subscriptions.stop(box, ["al"]),
        lambda box: queues.turn_off(box, ["orders"]),
        lambda box: resubmit(box, 5),
        lambda box: resubmit(box, [5]),
        lambda box: resubmit(box, [HALF]),
        lambda box: resubmit(box, message_type=5),
        lambda box: grant(box, "x", publish=5),
        lambda box: grant(box, 5, publish=["orders"]),
        lambda box: grant(box, HALF, publish=["orders"]),
        lambda box: grant(box, "x", publish=[["orders"]]),
        lambda box: dead_letters.delete(box, 5, actor="a", reason="r"),
        lambda box: dead_letters.delete(box, ["x"], actor="a", reason="r"),
        lambda box: dead_letters.delete(box, [10**30], actor="a", reason="r"),
        lambda box: dead_letters.requeue(box, 10**30, actor="a", reason="r"),
        lambda box: dead_letters.requeue(box, "x", actor="a", reason="r"),
        lambda box: dead_letters.dead_letters(box, entry_ids=5),
        lambda box: fault_view(box, 10**30),
        lambda box: fault_view(box, "x"),
        *(lambda box, most=most: sq.MessageBox.open(box.dsn, schema=box.schema, connections=most) for most in (0, -1, "x", None, True)),
        *(lambda box, limit=limit: sq.MessageBox.open(box.dsn, schema=box.schema, turn_limit=limit) for limit in (-1, 0, 1e12, [])),
        lambda box: sq.MessageBox.open(box.dsn, schema=None),
        lambda _: sq.MessageBox.open(f"dbname={HALF}"),
    ],
)  # fmt: skip
def test_what_can_be_no_argument_is_a_usage_error(shared, call):
    with pytest.raises(sq.UsageError) as caught:
        call(shared)
    assert caught.value.remedy
    assert works(shared)


def test_a_text_where_a_list_of_queues_is_wanted(queue):
    for change in (grant, revoke):
        with pytest.raises(sq.UsageError, match=r"publish: 'orders' is no list of queues.*give a list"):
            change(queue, "x", publish="orders")


def test_one_id_is_resubmitted_as_it_is(queue):
    for message_id in ("ab", "a", "b"):
        publish(queue, sq.Message(type="later", message_id=message_id))
    queue.define(
        sq.MessageType("later"), sq.Queue("rest", policy=sq.Unordered()),
        sq.Subscription("later", where="type = 'later'", to="rest"),
    )  # fmt: skip
    assert resubmit(queue, "ab") == Resubmitted(1, 0)
    assert [one.message_id for one in message_operations.messages(queue, queue="rest")] == ["ab"]


def test_a_state_of_an_instance_that_has_half_a_character(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer"),
        sq.Subscription("all", where="TRUE", to="orders", starts="m:f", correlate=["customer"]),
    )
    publish(box, sq.Message(type="order", context={"customer": "a"}))

    def kept(text):
        with box.session() as tx:
            for _ in tx.receive("orders"):
                tx.instance.state["z"] = text

    with pytest.raises(sq.UsageError, match="the state can't be kept"):
        kept(HALF)
    kept("zwölf \0 \U0001f600")
    assert instances(box)[0].state == {"z": "zwölf \0 \U0001f600"}


def test_a_message_that_is_looked_up_has_the_properties_it_was_published_with(queue):
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    given = {"double": 1.5, "at": moment, "decimal": Decimal("1.50"), "long": 7, "text": "x", "none": None}
    publish(queue, sq.Message(type="free", message_id="m", context=given))
    found = message_operations.message(queue, "m")[0].context
    assert found == given
    assert {name: type(value) for name, value in found.items()} == {name: type(value) for name, value in given.items()}


def test_parts_of_one_name_are_found_in_one_pass():
    class Name(str):
        compared = 0
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

    parts = [sq.Part(Name(f"part {number}")) for number in range(1000)]
    order(parts=parts)
    assert Name.compared < 10_000
    with pytest.raises(sq.UsageError, match="two parts are named 'part 5'"):
        order(parts=[*parts, sq.Part("part 5"), sq.Part("part 7")])


_LARGE = r"""
import os, re, sys
from pathlib import Path
import seriatim as sq

body = os.urandom(2**20) * int(sys.argv[3])
with sq.MessageBox.open(sys.argv[1], schema=sys.argv[2]) as box:
    for _ in range(2):
        with box.session() as tx:
            tx.publish(sq.Message(type="order", body=body, context={"customer": "a", "version": 1}, message_id="large"))
    with box.session() as tx:
        (message,) = tx.receive("orders")
        assert message.body == body
    with box.session() as tx:
        assert tx.connection.execute(f"SELECT count(*) FROM {sys.argv[2]}.spool").fetchone() == (0,)
# Of this program: what `getrusage` tells was that of the process that it was forked from, too.
print(int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.dear
@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="how much memory it took is read in /proc")
def test_a_body_of_200_megabytes(queue):
    """It comes and goes, and is copied a few times on its way: so often that memory stays bounded. It has 50 where time counts."""
    size = sized(200, 50)
    words = [sys.executable, "-c", _LARGE, queue.dsn, queue.schema, str(size)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (
        int(done.stdout) < 200 + 8 * size
    )  # MiB, of which the program itself has 150, and the bodies that it compares twice the size


class Load:
    """Applications that publish and receive, and repeat a transaction until it has worked.

    Args:
        box: the box, with a queue `orders` and a table `handled`.
        versions: how many messages each of four customers has.
    """

    def __init__(self, box, versions):
        self.box, self.versions = box, versions
        self.refused = threading.Event()

    def again(self, work):
        deadline = time.monotonic() + 180
        while True:
            try:
                return work()
            except (sq.Unavailable, psycopg.OperationalError):
                self.refused.set()
                assert time.monotonic() < deadline

    def feed(self, customer):
        for version in range(1, self.versions + 1):
            message = order(customer, version)
            self.again(lambda message=message: publish(self.box, message))

    def work(self):
        while self.count() < 4 * self.versions:
            self.again(self._handle)

    def _handle(self):
        with self.box.session() as tx:
            for message in tx.receive("orders", limit=5) or ():
                values = [message.context["customer"], message.sequence]
                tx.connection.execute("INSERT INTO handled VALUES (%s, %s)", values)

    def count(self):
        return len(self.again(self.handled))

    def handled(self):
        with self.box.session() as tx:
            return tx.connection.execute("SELECT customer, version FROM handled ORDER BY 1, 2").fetchall()


@pytest.mark.proves("sessions of many threads get `Unavailable` when the server is killed, and lose nothing")
@pytest.mark.dear
def test_the_server_is_killed_under_load(tmp_path):
    """What is done in a session then raises `Unavailable`, or what psycopg raises where the application used it; the
    next sessions work, and nothing is lost or handled twice."""
    server = EmbeddedServer(tmp_path / "server")
    try:
        with sq.MessageBox.open(server.dsn) as box:
            box.define(
                sq.MessageType("order", properties={"customer": "string", "version": "long"}),
                sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
                sq.Subscription("all", where="TRUE", to="orders"),
            )
            with box.session() as tx:
                tx.connection.execute("CREATE TABLE handled (customer text, version bigint)")
            load = Load(box, 100)
            with ThreadPoolExecutor(6) as threads:
                running = [threads.submit(load.feed, customer) for customer in "abcd"]
                running += [threads.submit(load.work) for _ in range(2)]
                while load.count() < 100:
                    pass
                pid = int((tmp_path / "server/data/postmaster.pid").read_text().splitlines()[0])
                os.kill(pid, signal.SIGKILL)
                for one in running:
                    one.result(120)
            assert load.refused.is_set()
            assert load.handled() == [(customer, version) for customer in "abcd" for version in range(1, 101)]
    finally:
        server.close()


@pytest.mark.parametrize("said", [{"actor": ""}, {"actor": "x" * 257}, {"reason": "nul\0"}, {"reason": "x" * 4097}])
def test_what_is_written_down_of_an_operator_is_looked_at_first(shared, said):
    with pytest.raises(sq.UsageError, match=f"is not {next(iter(said))}"):
        groups.forget(shared, "orders", "c1", **said)
    with pytest.raises(sq.UsageError, match=f"is not {next(iter(said))}"):
        queues.release(shared, "orders", **said)


@pytest.mark.parametrize(
    "call",
    [
        lambda box, odd: box.peek("orders", odd),
        lambda box, odd: box.status_of("x", id_space=odd),
        lambda box, odd: box.apply(odd),
        lambda box, odd: box.more(odd),
        lambda box, odd: box.publish(sq.Message(type="order"), unique=odd),
        lambda box, odd: box.lease(odd),
        lambda box, odd: sq.Worker(box, "orders", print, run_as=odd),
        lambda box, odd: sq.Worker(odd, "orders", print),
        sq.ReceivePort,
    ],
)
@pytest.mark.parametrize("odd", [object(), [[]], {"x": []}, float("nan")])
def test_an_argument_of_another_kind_is_a_usage_error(shared, call, odd):
    with pytest.raises(sq.UsageError):
        call(shared, odd)


@pytest.mark.parametrize("odd", [None, 5, object()])
def test_dialogs_refuse_what_is_no_list_and_no_handle(shared, odd):
    for call in (lambda tx: tx.send_many(odd), lambda tx: tx.begin_monolog("Buyer", odd), lambda tx: tx.has_ended(odd)):
        with pytest.raises(sq.UsageError), shared.session() as tx:
            call(tx)
