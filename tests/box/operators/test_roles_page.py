"""The table of what a role can see and stop, `docs/how-to/roles.md`, line by line."""

from __future__ import annotations

import re
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import groups, messages
from seriatim.operations.grants import grant
from tests.box.roles import as_role, dsn_of, in_sql, make, rows
from tests.databases import box_with

PAGE = Path(__file__).parents[3] / "docs/how-to/roles.md"
MARK = "T0PS3CRET"
#: What a role without the right for it is told.
REFUSED = (psycopg.errors.InsufficientPrivilege, sq.EnvironmentProblem)


def prepare(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("own", policy=sq.Fifo(), group="customer", max_messages=sq.Limit(3, when_full="refuse")),
        sq.Queue(
            "other", policy=sq.Fifo(), group="customer", activation=sq.Activation(port=f"files: {{path: {MARK}}}")
        ),
        sq.Subscription("own", where="customer LIKE 'o%'", to="own"),
        sq.Subscription("other", where="customer LIKE 'x%'", to="other"),
        sq.Location("till"),
    )
    box.publish([order("x1", "there", MARK), order("o1", "mine", "seen")])


defined = box_with(prepare)


@pytest.fixture
def box(defined):
    """The box with its roles, which are the server's: they go with the test."""
    make(defined, "eve")
    return defined


def order(customer, message_id=None, body=""):
    more = {} if message_id is None else {"message_id": message_id}
    return sq.Message(type="order", body=body.encode(), context={"customer": customer}, **more)


def sees_no_message(box, queue="other"):
    """Neither by receiving nor by any table or view."""
    with as_role(box, "eve") as own, pytest.raises(REFUSED), own.session() as tx:
        tx.receive(queue)
    for name in ("spool", "entries", "messages", "message_places", "message_ids", "queues"):
        with pytest.raises(REFUSED):
            in_sql(box, "eve", f"SELECT * FROM box.{name}")


def others_go_on(box, queue="other"):
    with box.session() as tx:
        tx.publish(order("x1"))
    with box.session() as tx:
        assert len(tx.receive(queue, limit=10)) == 2


@contextmanager
def in_a_hurry(box):
    """A session of the owner's that waits for no lock."""
    with psycopg.connect(box.dsn, options="-c lock_timeout=50") as connection, box.session(connection) as tx:
        yield tx
        connection.rollback()


def none(box):
    sees_no_message_at_all = (
        "SELECT * FROM box.definitions()",
        "SELECT box.version()",
        "SELECT box.publish('order', '')",
    )
    for statement in sees_no_message_at_all:
        with pytest.raises(REFUSED):
            in_sql(box, "eve", statement)
    with pytest.raises(sq.EnvironmentProblem, match="permission denied"):
        sq.MessageBox.open(dsn_of(box, "eve"), schema=box.schema)
    with psycopg.connect(dsn_of(box, "eve")) as own:
        own.execute("""
            SELECT pg_advisory_xact_lock(hashtextextended('seriatim publishers', oid::bigint))
            FROM pg_namespace WHERE nspname = 'test'
        """)
        with in_a_hurry(box) as tx, pytest.raises(sq.Unavailable, match='of the role "eve"'):
            tx.publish(order("x1"))
    others_go_on(box)


def anything(box):
    grant(box, "eve", publish=["own"])
    with as_role(box, "eve") as own:
        known = own.definitions()
        assert set(known.queues) == {"own", "other"}
        assert known.subscriptions["other"].declared.where == "customer LIKE 'x%'"
        assert known.queues["other"].declared.activation is None
        assert MARK not in str(in_sql(box, "eve", "SELECT * FROM box.definitions()"))
        assert own.publish(order("o1", "there")).left_out == []  # which the owner has published
    sees_no_message(box)
    others_go_on(box)


def publish(box):
    grant(box, "eve", publish=["own"])
    with as_role(box, "eve") as own:
        assert own.publish(order("o1", "once")).left_out == []
        assert own.publish([order("o1", "once"), order("o1", "there")]).left_out == ["once"]
        with pytest.raises(sq.QueueFull):
            own.publish(order("o1"))
        with pytest.raises(sq.QueueFull):  # so it stops others that publish there, and only there
            box.publish(order("o1"))
        with pytest.raises(REFUSED, match='may not publish to the queue "other"'):
            own.publish(order("x1"))
    sees_no_message(box, "own")
    version, queue = box.definitions().version, box.definitions().queue("own").queue_id
    for context, kinds, group in (("[]", None, "o1"), ('{"a": "x"}', '{"a": "decimal"}', "o1"), ("{}", None, None)):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            in_sql(
                box, "eve",
                "SELECT box.take_in_one(%s, %s, 't', 'box', NULL, %s, %s, '', NULL, NULL, %s, %s, 1, 1, 5, '{}', FALSE, FALSE, FALSE)",
                [version, context, context, kinds, queue, group],
            )  # fmt: skip
    others_go_on(box)


def receive(box):
    grant(box, "eve", receive=["own"])
    with as_role(box, "eve") as own, own.session() as tx:
        (message,) = tx.receive("own")
        assert (message.body, message.context["customer"]) == (b"seen", "o1")
        with box.session() as others:  # as long as it has the group in hand nobody else gets it
            assert others.receive("own") is None
    sees_no_message(box)
    with pytest.raises(REFUSED):
        in_sql(box, "eve", "SELECT * FROM box.handed(%s, %s)", [box.definitions().queue("other").queue_id, [1]])
    others_go_on(box)


def subscribe(box):
    grant(box, "eve", subscribe=["own"], receive=["own"], types=["order"])
    with as_role(box, "eve") as own:
        own.define(sq.Subscription("all", where="TRUE", to="own"))
        box.publish(
            [order("x2", body="of its type"), sq.Message(type="bill", body=MARK.encode(), context={"to": "other"})]
        )
        with own.session() as tx:
            (message,) = tx.receive("own", group="x2")
            assert message.body == b"of its type"
        with pytest.raises(sq.UsageError, match="may not subscribe to"):
            own.define(sq.Subscription("bills", where="type = 'bill'", to="own"))
        for wrong in (
            sq.Subscription("other", where="FALSE", to="own"),
            sq.Subscription("more", where="TRUE", to="other"),
        ):
            with pytest.raises(REFUSED, match='may not subscribe for the queue "other"'):
                own.define(wrong)
        # Neither a full queue nor a filter that is none stops a publisher.
        declared = '{"version": 1, "name": "none", "where": "(", "to": "own", "state": "started", "starts": null, "correlate": []}'
        in_sql(box, "eve", "SELECT box.subscribe('none', 'own', %s, 'started')", [declared])
        in_sql(box, "eve", "SELECT box.record_change('none')")
        make(box, "clerk")
        grant(box, "clerk", publish=["other"])
        with as_role(box, "clerk") as clerk:
            clerk.publish([order("x3") for _ in range(5)])
    assert len(messages.messages(box, queue="other", group="x3")) == 5


def dispense(box):
    grant(box, "eve", dispense=["till"])
    with as_role(box, "eve") as own:
        with own.session() as tx:
            assert tx.dispense("till").first == 1
            with in_a_hurry(box) as waiting, pytest.raises(sq.Unavailable, match='of the role "eve"'):
                waiting.dispense("till")
            with in_a_hurry(box) as others:
                assert others.dispense("elsewhere").first == 1
        with pytest.raises(REFUSED), own.session() as tx:
            tx.dispense("box")
        with pytest.raises(REFUSED), own.session() as tx:
            tx.publish(order("x1"))
    sees_no_message(box)
    others_go_on(box)


def route(box):
    grant(box, "eve", route=True)
    rows(box, "SELECT box.publish('order', 'by sql', '{\"customer\": \"x1\"}')")
    seen = str(in_sql(box, "eve", "SELECT * FROM box.pending(10, 10000, '0', '{}')"))
    assert "by sql" in seen
    assert MARK not in seen
    sees_no_message(box)
    for version in (None, box.definitions().version):  # nor in the error where it names another's
        ((arrival,),) = rows(box, "SELECT arrival_id FROM box.spool WHERE message_id = 'there'")
        given = [version, [arrival], [0], ["{}"], [None], [0], [None], *[[]] * 8]
        kinds = "bigint bigint[] bigint[] text[] text[] integer[] text[] bigint[] integer[] text[] bigint[] bigint[] integer[]"
        casts = ", ".join(f"%s::{kind}" for kind in (*kinds.split(), "text[]", "text[]"))
        with pytest.raises(psycopg.Error) if version else nullcontext():
            assert in_sql(box, "eve", f"SELECT box.route({casts})", given) == [(False,)]
        with pytest.raises(psycopg.Error) as caught:
            in_sql(box, "eve", f"SELECT box.route({casts})", [*given[:3], [None], [None], [1], *given[6:]])
        assert MARK not in str(caught.value)
    with psycopg.connect(dsn_of(box, "eve")) as connection:  # as long as it has them in hand nobody else routes
        connection.execute(f"SELECT count(*) FROM {box.schema}.pending(10, 10000, '0', '{{}}')")
        with (
            psycopg.connect(box.dsn, options="-c lock_timeout=50") as other,
            pytest.raises(psycopg.errors.LockNotAvailable),
        ):
            other.execute(f"SELECT * FROM {box.schema}.pending(10, 10000, '0', '{{}}')")
    assert box.tick().routed == 1


def see(box):
    grant(box, "eve", see=["own"])
    sees_no_message(box)
    for view in ("spool", "entries", "stored_messages", "queues"):
        assert not re.search(f"{MARK}|seen'|x1", str(in_sql(box, "eve", f"SELECT * FROM box.seen_{view}")))
    assert in_sql(box, "eve", "SELECT message_id, body, context FROM box.seen_spool") == [("mine", None, None)]
    changes_nothing(box)


def see_bodies(box):
    grant(box, "eve", see_bodies=["own"])
    sees_no_message(box)
    assert in_sql(box, "eve", "SELECT message_id, body FROM box.seen_spool") == [("mine", b"seen")]
    changes_nothing(box)


def changes_nothing(box):
    with as_role(box, "eve") as own:
        for queue, group in (("own", "o1"), ("other", "x1")):
            with pytest.raises(REFUSED):
                groups.suspend(own, queue, group, actor="eve", reason="because")
    others_go_on(box)


def operate(box):
    grant(box, "eve", operate=["own"])
    sees_no_message(box)
    assert in_sql(box, "eve", "SELECT message_id, body FROM box.seen_spool") == [("mine", None)]
    with as_role(box, "eve") as own:
        groups.suspend(own, "own", "o1", actor="eve", reason="because")
        with pytest.raises(REFUSED), own.session() as tx:
            tx.receive("own")
        with pytest.raises(REFUSED):
            groups.suspend(own, "other", "x1", actor="eve", reason="because")
    assert groups.group_view(box, "own", "o1").state == "suspended"
    others_go_on(box)


#: By what stands in the first column.
LINES = {
    "none, but `LOGIN`": none,
    "any": anything,
    "`publish`": publish,
    "`receive`": receive,
    "`subscribe`": subscribe,
    "`see`": see,
    "`see_bodies`": see_bodies,
    "`operate`": operate,
    "`dispense`": dispense,
    "`route`": route,
}


def test_each_line_of_the_table_has_its_test():
    section = PAGE.read_text(encoding="utf-8").split("## What a role can see and stop")[1].split("\n## ")[0]
    lines = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)
    assert lines[0] == "right"
    assert lines[1:] == list(LINES)


@pytest.mark.parametrize("line", LINES)
def test_what_a_role_can_see_and_stop(box, line):
    LINES[line](box)
