"""A role's subscription matches the types granted to it and no others, and no publisher fails for it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.pipelines.staging import Staging
from seriatim.cli.main import main
from seriatim.operations import messages
from seriatim.operations.grants import grant, revoke
from seriatim.pipeline.files.json_form import to_json
from tests.box.roles import as_role, in_sql, make, rows
from tests.databases import box_with


def prepare(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.MessageType("bill", properties={"customer": "string"}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer"),
        sq.Queue("bills", policy=sq.Fifo(), group="customer"),
        sq.Queue("rq", policy=sq.Unordered()),
        sq.Queue(
            "few",
            policy=sq.Standard(),
            group="customer",
            sequence="version",
            max_messages=sq.Limit(1, when_full="refuse"),
        ),
        sq.Queue("started", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("bills", where="type = 'bill'", to="bills"),
    )


defined = box_with(prepare)


@pytest.fixture
def box(defined):
    """The box with its roles, which are the server's: they go with the test."""
    make(defined, "reader", "clerk")
    grant(defined, "reader", subscribe=["rq", "few", "started"], receive=["rq", "few", "started"], types=["order"])
    grant(defined, "clerk", publish=["orders"])
    return defined


def message(kind, customer="c1", **more):
    return sq.Message(type=kind, context={"customer": customer, **more})


def received(box, queue="rq"):
    with box.session() as tx:
        found, kinds = tx.receive(queue, limit=100), []
        while found is not None:
            kinds += [one.type for one in found]
            found = tx.receive(queue, limit=100)
    return sorted(kinds)


def test_a_filter_that_names_no_type_is_narrowed_to_those_that_are_granted(box):
    with as_role(box, "reader") as own:
        own.define(sq.Subscription("mine", where="TRUE", to="rq"))
        assert box.publish([message("order"), message("bill"), sq.Message(type="other")])
        assert received(own) == ["order"]
        for definitions in (own.definitions(), box.definitions()):
            mine = definitions.subscriptions["mine"]
            assert (mine.declared.where, mine.role, mine.types) == ("TRUE", "reader", ("order",))
            assert definitions.subscriptions["orders"].types is None
        assert rows(box, "SELECT subscriber, types FROM box.subscriptions WHERE subscription = 'mine'") == [
            ("reader", ["order"])
        ]
        told = CliRunner().invoke(main, ["subscriptions", "--json", "--dsn", box.dsn, "--schema", box.schema]).stdout
        assert {"role": "reader", "types": ["order"]}.items() <= json.loads(told)[1].items()
        # With what is granted later and what is revoked it is so at once, for whoever publishes.
        grant(box, "reader", types=["bill", "other"])
        box.publish([message("order"), message("bill"), sq.Message(type="other")])
        assert received(own) == ["bill", "order", "other"]
        revoke(box, "reader", types=["order", "other"])
        box.publish([message("order"), message("bill"), sq.Message(type="other")])
        assert received(own) == ["bill"]
        revoke(box, "reader", types=["bill"])
        box.publish([message("order"), message("bill")])
        assert received(own) == []


def test_a_type_that_is_revoked_narrows_it_in_other_processes_at_once(box, postgresql):
    with as_role(box, "reader") as own, sq.MessageBox.open(box.dsn, schema=box.schema) as other:
        own.define(sq.Subscription("mine", where="customer LIKE 'c%'", to="rq"))
        other.publish(message("order"))  # it knows the definitions now
        with other.session() as tx:
            revoke(box, "reader", types=["order"])
            tx.publish(message("order"))
        assert received(own) == ["order"]


@pytest.mark.parametrize(
    "where",
    [
        "type = 'bill'",
        "type IN ('order', 'bill')",
        "customer = 'c1' AND ('bill' = type OR version = 1)",
        "NOT (type <> 'bill')",
    ],
)
def test_a_filter_that_names_another_type_is_refused(box, where):
    with as_role(box, "reader") as own:
        with pytest.raises(sq.UsageError, match="names the type 'bill', which the role 'reader' may not subscribe to"):
            own.define(sq.Subscription("mine", where=where, to="rq"))
        own.define(sq.Subscription("mine", where="type = 'order' AND version = 1", to="rq"))
        revoke(box, "reader", types=["order"])
        grant(box, "reader", types=["bill"])
        own.define(sq.Subscription("mine", where=where.replace("'order', ", ""), to="rq"))


def test_a_role_without_a_type_can_subscribe_to_nothing(box):
    revoke(box, "reader", types=["order"])
    with (
        as_role(box, "reader") as own,
        pytest.raises(sq.EnvironmentProblem, match='"reader" may subscribe to no type of message'),
    ):
        own.define(sq.Subscription("mine", where="FALSE", to="rq"))


def test_what_raw_sql_says_is_narrowed_as_well(box):
    box.publish(message("bill"))
    declared = to_json(sq.Subscription("mine", where="type = 'bill' OR TRUE", to="rq"))
    in_sql(box, "reader", "SELECT box.subscribe('mine', 'rq', %s, 'started')", [json.dumps(declared)])
    in_sql(box, "reader", "SELECT box.record_change('x')")
    box.publish([message("bill"), message("order")])
    assert received(box) == ["order"]


def test_the_types_are_those_of_the_group_by_whose_right_it_is_made(box):
    make(box, "team", options="NOLOGIN")
    make(box, "member")
    rows(box, "GRANT team TO member")
    grant(box, "team", subscribe=["rq"], types=["bill"])
    with as_role(box, "member") as own:
        own.define(sq.Subscription("teams", where="TRUE", to="rq"))
        assert own.definitions().subscriptions["teams"].role == "team"
    rows(box, "DROP ROLE member")
    box.publish([message("bill"), message("order")])
    assert received(box) == ["bill"]
    revoke(box, "team")
    rows(box, "DROP ROLE team")  # its subscription is there, and matches nothing
    box.publish([message("bill")])
    assert received(box) == []
    assert box.definitions().subscriptions["teams"].types == ()


def test_an_instance_gets_nothing_of_another_type_by_its_values(box):
    """Values that a running instance adds lead messages to it, whatever a filter says; but not those of other types."""
    with as_role(box, "reader") as own:
        own.define(sq.Subscription("mine", where="TRUE", to="started", starts="m:f", correlate=["customer", "version"]))
        box.publish(message("order", version=1))
        with own.session() as tx:
            (one,) = tx.receive("started")
            assert one.type == "order"
            tx.instance.correlate(version=7)
        box.publish(
            [sq.Message(type="order", context={"version": 7}), sq.Message(type="loose", context={"version": 7})]
        )
        assert received(own, "started") == ["order"]


@pytest.mark.parametrize("by", ["python", "sql"])
def test_no_publisher_fails_for_a_strangers_subscription(box, by):
    """Whatever it leads where: it gives nobody anything to ask for."""
    with as_role(box, "reader") as own, as_role(box, "clerk") as clerk:
        own.define(sq.Subscription("mine", where="TRUE", to="rq"))
        if by == "python":
            clerk.publish([message("order"), message("order")])
            with clerk.session() as tx:
                tx.publish(message("order"))
            clerk.publish(message("order", "c2"))
        else:
            for _ in range(4):
                in_sql(box, "clerk", "SELECT box.publish('order', '', '{\"customer\": \"c1\"}')")
            box.tick()
        assert received(own) == ["order"] * 4
        assert received(box, "orders") == ["order"] * 4
        assert messages.messages(box, status="unrouted") == []
        # The owner's are asked for, as before; those messages stay out of the box, or are unrouted.
        if by == "python":
            with pytest.raises(sq.EnvironmentProblem, match='may not publish to the queue "bills"'):
                clerk.publish(message("bill"))
        else:
            in_sql(box, "clerk", "SELECT box.publish('bill', '', '{\"customer\": \"c1\"}')")
            box.tick()
            assert [one.type for one in messages.messages(box, status="unrouted")] == ["bill"]


def test_a_full_queue_that_a_role_subscribed_for_keeps_no_publisher_out(box):
    with as_role(box, "reader") as own, as_role(box, "clerk") as clerk:
        own.define(sq.Subscription("mine", where="TRUE", to="few"))
        box.publish([message("order", version=n) for n in (1, 2, 3)])
        clerk.publish(message("order", version=4))
        box.publish(message("order", version=5))
        assert len(messages.messages(box, queue="orders")) == 5
        kept = [(one.status, one.sequence) for one in messages.messages(box, queue="few")]
        assert kept == [("arrived", 1), *[("invalid", n) for n in (2, 3, 4, 5)]]
        assert "keeps no publisher waiting" in messages.messages(box, queue="few", status="invalid")[0].reason
        assert received(own, "few") == ["order"]
        assert messages.resubmit(box, queue="few").routed == 4
        assert received(own, "few") == ["order"] * 4
        # Of the owner's subscriptions it does.
        box.define(sq.Subscription("all", where="TRUE", to="few"))
        box.publish(message("order", version=6))
        with pytest.raises(sq.QueueFull):
            box.publish(message("order", version=7))


def test_a_pipeline_does_not_wait_for_a_full_queue_that_a_role_subscribed_for(box):
    with as_role(box, "reader") as own:
        own.define(sq.Subscription("mine", where="TRUE", to="few"))
    for number, versions in enumerate([(1,), (2, 3), (4,)]):
        columns = {"type": ["order"] * len(versions), "customer": ["c1"] * len(versions), "version": versions}
        with Staging(box.dsn, box.schema, wait=0) as staging:
            part = staging.stage("writer", number, [pa.RecordBatch.from_pydict(columns)])
            assert staging.merge("writer", number, [part]) == len(versions)
    assert len(messages.messages(box, queue="orders")) == 4
    assert [(one.status, one.sequence) for one in messages.messages(box, queue="few")] == [
        ("arrived", 1), ("invalid", 2), ("invalid", 3), ("invalid", 4)
    ]  # fmt: skip


def test_what_is_claimed_of_a_subscription_that_matches_another_type_is_refused(box):
    """Through raw SQL nobody gets a message into a stranger's queue that its subscription may not match."""
    with as_role(box, "reader") as own:
        own.define(sq.Subscription("mine", where="TRUE", to="rq"))
    definitions = box.definitions()
    queue, mine = definitions.queue("rq").queue_id, definitions.subscriptions["mine"].subscription_id
    (orders,) = [one.subscription_id for name, one in definitions.subscriptions.items() if name == "orders"]
    call = """SELECT box.take_in_one(
        %s, %s, %s, 'box', NULL, '{}', NULL, '', NULL, NULL, %s, '', NULL, NULL, 5, %s, FALSE, FALSE, FALSE
    )"""

    def publish(kind, by, to=queue):
        return in_sql(box, "clerk", call, [definitions.version, f"{kind}{by}", kind, to, by])

    assert publish("order", [mine]) == [(True,)]
    for kind, by, to in (
        ("bill", [mine], queue),
        ("order", [], queue),
        ("order", [orders], queue),
        ("order", [mine, orders], queue),
        ("order", [mine], definitions.queue("bills").queue_id),
    ):
        with pytest.raises(Exception, match="may not publish to the queue"):
            publish(kind, by, to)
