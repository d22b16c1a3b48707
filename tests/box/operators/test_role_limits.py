"""What a role can't do to others with the rights that it has: stop a location, look where values lead, or write as somebody else."""

from __future__ import annotations

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import groups, queues, subscriptions
from seriatim.operations.box_status import box_status
from seriatim.operations.grants import grant, grants, revoke
from tests.box.shop import define, rows
from tests.databases import box_with

LAST = 2**53 - 1
DENIED = psycopg.errors.InsufficientPrivilege


box = box_with(define)


@pytest.fixture
def role(box):
    """A role that can log in: its name and its DSN."""
    rows(box, "CREATE ROLE limited LOGIN")
    return "limited", box.dsn.replace("seriatim@", "limited@")


def order(version=1, **more):
    return sq.Message(type="order", context={"customer": "c1", "version": version, **more})


def taken(connection, box, location, count):
    query = f"SELECT epoch, number FROM {box.schema}.take_numbers(%s, %s)"
    return connection.execute(query, [location, count]).fetchone()


@pytest.mark.parametrize("count", [1, LAST, 2**63 - 1])
def test_publishing_gives_nobody_the_numbers_of_a_location(box, role, count):
    name, dsn = role
    grant(box, name, publish=["shop"])
    with (
        psycopg.connect(dsn) as connection,
        pytest.raises(DENIED, match='may not dispense tickets of the location "box"'),
    ):
        taken(connection, box, "box", count)
    box.publish([order(1), order(2)])
    assert [(one.epoch, one.next_number) for one in box_status(box).locations] == [(0, 3)]


def take_in(connection, box, message_id, meaning):
    """A message for the group c1 of the queue "feed", by a role, with this meaning of its number."""
    ((version, queue),) = rows(
        box, "SELECT {schema}.hold_definitions(), queue_id FROM {schema}.queues WHERE queue = 'feed'"
    )
    given = {
        "message_ids": f"ARRAY['{message_id}']", "types": "ARRAY['order']", "locations": "ARRAY['box']",
        "contexts": "ARRAY['{}']", "bodies": "ARRAY[''::bytea]", "destinations": "ARRAY[1]", "visible_at": "NULL",
        "delay": "NULL", "entry_places": "ARRAY[1::bigint]", "entry_queues": f"ARRAY[{queue}]", "entry_groups": "ARRAY['c1']",
        "entry_sequences": "ARRAY[1::bigint]", "entry_sizes": "ARRAY[NULL::bigint]", "entry_priorities": "ARRAY[5]",
        "entry_subscriptions": "ARRAY['{}']", "on_way": "FALSE", "by_itself": "TRUE", "flushed": "FALSE",
        "entry_meanings": f"ARRAY['{meaning}']",
        **dict.fromkeys(("content_types", "property_types", "problems", "entry_problems"), "ARRAY[NULL]::text[]"),
        **dict.fromkeys((f"part_{one}" for one in ("counts", "places", "names", "content_types", "bodies")), "NULL"),
    }  # fmt: skip
    arguments = ", ".join(f"{name} => {value}" for name, value in given.items())
    connection.execute(f"SELECT {box.schema}.take_in(known_version => {version}, {arguments})")


@pytest.mark.parametrize(
    "meaning",
    ["{4096,1,0,0,1}", "{1024,1,0,0}", "{80,1,0,0}", "{0,1,0,0,7}", "{8192,1,0,0,5}", "{0,1}", "[2:5]={0,1,0,0}", "{}"],
    ids=["partial set", "of a turn", "base without number", "longer", "position", "shorter", "from two", "empty"],
)
def test_no_number_means_what_no_message_says(box, role, meaning):
    name, dsn = role
    define(box, "feed", sequence=sq.Sequence("version", void="customer IS NULL"))
    grant(box, name, publish=["feed"])
    with psycopg.connect(dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="a meaning that no message gives it"):
            take_in(connection, box, "bad", meaning)
        take_in(connection, box, "good", "{512,1,0,0}")
    box.publish(order(2))
    with box.session() as tx:
        assert [one.sequence for one in tx.receive("feed", limit=10)] == [2]


def test_a_right_to_dispense_is_for_a_location(box, role):
    name, dsn = role
    box.define(sq.Location("crm"), sq.Location("erp"))
    grant(box, name, dispense=["crm"])
    assert [(one.role, one.dispense, one.publish) for one in grants(box)] == [(name, ["crm"], [])]
    with sq.MessageBox.open(dsn, schema=box.schema) as own:
        with own.session() as tx:
            assert tx.dispense("crm", count=2) == sq.Tickets("crm", 0, 1, 2)
        with pytest.raises(sq.EnvironmentProblem, match='of the location "erp"'), own.session() as tx:
            tx.dispense("erp")
        with pytest.raises(sq.EnvironmentProblem, match='may not publish to the queue "shop"'):
            own.publish(order())
        revoke(box, name, dispense=["crm"])
        with pytest.raises(sq.EnvironmentProblem, match="permission denied"), own.session() as tx:
            tx.dispense("crm")
    assert grants(box) == []


def test_a_location_that_is_dropped_takes_its_rights_along(box, role):
    name, _ = role
    box.define(sq.Location("crm"))
    grant(box, name, dispense=["crm"], publish=["shop"])
    box.drop(location="crm")
    assert [(one.dispense, one.publish) for one in grants(box)] == [([], ["shop"])]


@pytest.mark.parametrize("count", [0, -1, None, LAST + 1, 2**63 - 1, -(2**63)])
def test_no_more_than_a_location_has_at_once(box, role, count):
    name, dsn = role
    box.define(sq.Location("crm"))
    grant(box, name, dispense=["crm"])
    with psycopg.connect(dsn) as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="can't be dispensed at once"):
            taken(connection, box, "crm", count)
        connection.rollback()
        assert taken(connection, box, "crm", 1) == (0, 1)


def test_nobody_comes_to_the_end_of_the_epochs(box):
    """A location that turns over after each number, and one that does after the last that there is."""
    box.define(sq.Location("one", last_number=1), sq.Location("all"))
    with psycopg.connect(box.dsn) as connection:
        assert taken(connection, box, "one", 10**6) == (0, 1)
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="1 to 1000000"), connection.transaction():
            taken(connection, box, "one", 10**6 + 1)
        assert taken(connection, box, "one", 1) == (10**6, 1)
        assert [taken(connection, box, "all", LAST) for _ in range(3)] == [(0, 1), (1, 1), (2, 1)]
        for wrong in ("", "x" * 129, None):
            with (
                pytest.raises(psycopg.errors.InvalidParameterValue, match="name of a location"),
                connection.transaction(),
            ):
                taken(connection, box, wrong, 1)


def test_where_a_value_leads_is_told_to_those_who_may_publish_there(box, role):
    name, dsn = role
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "shipment": "string"}),
        sq.Queue("work", policy=sq.Fifo(), group="customer"),
        sq.Subscription(
            "starts", "type = 'started'", "work", starts="orders:handle", correlate=["customer", "shipment"]
        ),
    )
    box.publish(sq.Message(type="started", context={"customer": "secret customer"}))
    with box.session() as tx:
        for _ in tx.receive("work"):
            tx.instance.correlate(shipment="s1")
    ((queue,),) = rows(box, "SELECT queue_id FROM {schema}.queues WHERE queue = 'work'")
    asked = f"SELECT led_to FROM {box.schema}.led_by(ARRAY[{queue}, {queue}], '{{shipment,shipment}}', '{{s1,s2}}')"
    led = order(shipment="s1")
    grant(box, name, receive=["work"])
    with sq.MessageBox.open(dsn, schema=box.schema) as own:
        for rights in ({"receive": ["shop"]}, {"subscribe": ["work"]}, {"publish": ["shop"]}):
            grant(box, name, **rights)
            with psycopg.connect(dsn) as connection, pytest.raises(DENIED, match="may not publish to") as caught:
                connection.execute(asked)
            assert "secret" not in str(caught.value)
        # Routed there it would be refused, too; and what leads nowhere is taken in.
        with pytest.raises(sq.EnvironmentProblem, match='may not publish to the queue "work"'):
            own.publish(led)
        own.publish(order(shipment="s2"))
        grant(box, name, publish=["work"])
        with psycopg.connect(dsn) as connection:
            assert connection.execute(asked).fetchall() == [("secret customer",), (None,)]
        own.publish(order(2, shipment="s1"))
    with box.session() as tx:
        assert [one.context["shipment"] for one in tx.receive("work", limit=10)] == ["s1"]


def test_an_instance_that_takes_no_more_refuses_nobody(box, role):
    name, dsn = role
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "shipment": "string"}),
        sq.Queue("work", policy=sq.Fifo(), group="customer"),
        sq.Subscription(
            "starts", "type = 'started'", "work", starts="orders:handle", correlate=["customer", "shipment"]
        ),
        sq.Subscription("keeps", "type = 'kept'", "work", starts="orders:handle", correlate=["customer", "shipment"]),
    )
    box.publish(sq.Message(type="started", context={"customer": "c9"}))
    with box.session() as tx:
        for _ in tx.receive("work"):
            tx.instance.correlate(shipment="s1")
    subscriptions.unenlist(box, "starts")
    grant(box, name, publish=["shop"])
    with sq.MessageBox.open(dsn, schema=box.schema) as own:
        own.publish(order(shipment="s1"))
    with box.session() as tx:
        assert len(tx.receive("shop")) == 1


def test_the_operator_log_says_who_had_logged_in(box, role):
    name, dsn = role
    grant(box, name, receive=["shop"])
    ((queue,),) = rows(box, "SELECT queue_id FROM {schema}.queues WHERE queue = 'shop'")
    with psycopg.connect(dsn) as connection:
        connection.execute(f"SELECT {box.schema}.stop_queue({queue}, 'c1', 'the administrator', 'I said so')")
    queues.turn_on(box, "shop")
    box.publish(order(3))
    groups.suspend(box, "shop", "c1", actor="ann", reason="looks odd")
    found = [(one.actor, one.action, one.role) for one in groups.standing(box, "shop", "c1").operations]
    assert found == [("ann", "suspend", "seriatim"), ("the administrator", "stop", name)]
