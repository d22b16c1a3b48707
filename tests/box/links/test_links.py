"""Messages over a link: in order of their groups, exactly once, with what they were published with."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import psycopg
import pytest
from psycopg import sql

import seriatim as sq
from seriatim.operations import links, set_aside
from seriatim.operations.grants import grant, revoke
from seriatim.operations.links import transmit
from tests.box import roles
from tests.box.links.pairs import ORDER, Pair, carried, order, paired

pytestmark = pytest.mark.telling


@pytest.fixture
def pair(databases):
    with paired(databases) as both:
        yield both


def test_groups_arrive_in_order_and_once(pair: Pair):
    for nth in range(12):
        pair.send(nth, customer=f"c{nth % 3}")
    (done,) = transmit(pair.near)
    assert (done.sent, done.acknowledged, done.error) == (12, 12, None)
    assert transmit(pair.near)[0].sent == 0
    arrived = carried(pair.far)
    assert sorted(arrived) == sorted((f"c{nth % 3}", nth, False) for nth in range(12))
    for group in ("c0", "c1", "c2"):
        mine = [nth for of, nth, _ in arrived if of == group]
        assert mine == sorted(mine)


@pytest.mark.parametrize("at_most", [5000, 2])
@pytest.mark.parametrize("calls", [1, 6])
def test_a_transaction_over_two_locations_arrives_as_it_was_published(pair: Pair, calls, at_most):
    made = [
        replace(one, context={**one.context, "location": "wb"[nth % 2]}) for nth, one in enumerate(map(order, range(6)))
    ]
    with pair.near.session() as tx:
        for some in [made] if calls == 1 else [[one] for one in made]:
            tx.publish(some)
    with pair.near.session() as tx:
        collect = f"SELECT {pair.near.schema}.link_collect(link_id, %s) FROM {pair.near.schema}.known_links"
        while tx.connection.execute(collect, [at_most]).fetchone() != (0,):
            pass
    (done,) = transmit(pair.near)
    assert done.sent == 6
    assert carried(pair.far) == [("c1", nth, False) for nth in range(6)]


def test_more_than_a_round_of_a_long_transaction_waits_for_none_that_was_committed_before(pair: Pair):
    with pair.near.session() as long:
        long.publish([order(2), order(3), order(4)])
        pair.send(1)
    for sent in (2, 2):
        with pair.near.session() as tx:
            collect = f"SELECT {pair.near.schema}.link_collect(link_id, 2) FROM {pair.near.schema}.known_links"
            assert tx.connection.execute(collect).fetchone() == (sent,)
    transmit(pair.near)
    assert [nth for _, nth, _ in carried(pair.far)] == [1, 2, 3, 4]


def test_answers_are_fetched_by_the_same_address(pair: Pair):
    pair.send(1, 2, box=pair.far, queue="answers")
    assert transmit(pair.near)[0].received == 2
    assert carried(pair.near, "answers") == [("c1", 1, False), ("c1", 2, False)]
    (link,) = links.status(pair.far)
    assert (link.sent, link.unacknowledged, link.waiting) == (2, 0, 0)


def test_a_message_keeps_what_it_was_published_with(pair: Pair):
    sent = sq.Message(
        type="other",
        body=b"body",
        content_type="text/plain",
        context={"to": "orders", "customer": "ä", "amount": Decimal("1.50"), "ratio": 0.5, "flag": True, "none": None},
        parts=[sq.Part("one", "image/png", b"\x00\xff"), sq.Part("two", None, b"")],
    )
    pair.near.publish(sent)
    transmit(pair.near)
    pair.far.tick()
    with pair.far.session() as tx:
        (message,) = list(tx.receive("orders"))
    assert (message.message_id, message.type, message.body, message.content_type) == (
        sent.message_id,
        "other",
        b"body",
        "text/plain",
    )
    assert [(one.name, one.content_type, one.body) for one in message.parts] == [
        ("one", "image/png", b"\x00\xff"),
        ("two", None, b""),
    ]
    assert {name: message.context[name] for name in ("customer", "amount", "ratio", "flag", "none")} == {
        "customer": "ä",
        "amount": Decimal("1.50"),
        "ratio": 0.5,
        "flag": True,
        "none": None,
    }
    assert message.ticket.location == "link:near"
    assert message.sent_by == (pair.near.id, "orders", "box", 0, 1)
    assert not message.replayed


def test_subscriptions_of_the_other_box_dont_match_what_comes_over_a_link(pair: Pair):
    pair.far.define(sq.Queue("all", group="customer"), sq.Subscription("all", where="TRUE", to="all"))
    pair.send(1)
    transmit(pair.near)
    assert carried(pair.far) == [("c1", 1, False)]
    assert carried(pair.far, "all") == []


def test_subscriptions_and_results_of_handlers_lead_to_a_remote_queue(pair: Pair):
    pair.near.define(
        sq.Queue("work", group="customer"),
        sq.Subscription("far-orders", where="type = 'order' AND nth > 5", to="orders"),
    )
    pair.near.publish(order(7, queue="work"))
    with pair.near.session() as tx:
        for message in tx.receive("work"):
            tx.publish(order(message.context["nth"] + 1))
    transmit(pair.near)
    # Each by the subscription, the second one by its address, too: once in the queue.
    assert carried(pair.far) == [("c1", 7, False), ("c1", 8, False)]


def test_unordered_queues_travel_in_lanes(pair: Pair):
    pair.far.define(sq.Queue("events", policy=sq.Unordered()))
    links.accept(
        pair.far, "near", role=pair.role, other=str(pair.near.id), queues=["events"], actor="test", reason="a test"
    )
    pair.near.define(sq.Queue("mine", at=sq.Remote("far", queue="events", lanes=4), policy=sq.Unordered()))
    ids = pair.near.publish([order(nth, queue="mine") for nth in range(40)])
    transmit(pair.near)
    streams = links.transmission(pair.near)
    assert {one.key for one in streams} == {"0", "1", "2", "3"}
    pair.far.tick()
    with pair.far.session() as tx:
        assert sorted(message.message_id for message in tx.receive("events", limit=100)) == sorted(ids)


def test_a_queue_that_isnt_named_is_refused_and_says_so(pair: Pair):
    pair.far.define(sq.Queue("secret", group="customer"))
    pair.near.define(sq.Queue("secret", at="far", group="customer"), sq.Queue("nothing", at="far", group="customer"))
    pair.send(1, queue="secret")
    pair.send(2, queue="nothing")
    assert transmit(pair.near)[0].acknowledged == 0
    said = {one.queue: one.last_error for one in links.transmission(pair.near)}
    assert said["secret"] == said["nothing"] is not None
    assert links.status(pair.near)[0].unacknowledged == 2
    links.accept(
        pair.far, "near", role=pair.role, other=str(pair.near.id), queues=["secret"], actor="test", reason="a test"
    )
    assert transmit(pair.near, at_once=True)[0].acknowledged == 1
    assert carried(pair.far, "secret") == [("c1", 1, False)]


def test_a_full_queue_and_a_missing_one_make_the_sender_wait(pair: Pair):
    pair.far.define(sq.Queue("orders", group="customer", keep="everything", max_messages=3))
    pair.send(1, 2, 3, 4, 5)
    assert transmit(pair.near)[0].acknowledged == 3
    (stream,) = [one for one in links.transmission(pair.near) if one.direction == "out"]
    assert stream.last_error == 'the queue "orders" is full'
    assert carried(pair.far) == [("c1", nth, False) for nth in (1, 2, 3)]
    assert transmit(pair.near, at_once=True)[0].acknowledged == 2
    assert carried(pair.far) == [("c1", 4, False), ("c1", 5, False)]


def test_a_suspended_group_stays_here(pair: Pair):
    from seriatim.operations import groups

    pair.send(1)
    groups.suspend(pair.near, "orders", "c1", actor="test", reason="a test")
    assert transmit(pair.near)[0].sent == 0
    groups.resume(pair.near, "orders", "c1", actor="test", reason="a test")
    pair.send(2)
    assert transmit(pair.near)[0].acknowledged == 2
    assert carried(pair.far) == [("c1", 1, False), ("c1", 2, False)]


def test_a_remote_queue_hands_nothing_out_here(pair: Pair):
    pair.send(1)
    with pytest.raises(sq.ActionRefused, match="is in another box"), pair.near.session() as tx:
        tx.receive("orders")
    with pytest.raises(sq.ActionRefused, match="is in another box"):
        sq.Worker(pair.near, "orders", lambda message, tx: None)
    pair.near.tick()
    assert transmit(pair.near)[0].acknowledged == 1


def test_the_role_of_a_link_may_call_two_functions_and_nothing_else(pair: Pair):
    with psycopg.connect(roles.dsn_of(pair.far, pair.role), autocommit=True) as connection:
        allowed = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace AND has_function_privilege(oid, 'EXECUTE')"
            " ORDER BY 1",
            [pair.far.schema],
        ).fetchall()
        assert allowed == [("link_fetch",), ("link_push",)]
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'v', 'p')"
            " AND has_table_privilege(oid, 'SELECT, INSERT, UPDATE, DELETE')",
            [pair.far.schema],
        ).fetchall()
        assert tables == []


def test_a_message_that_was_here_before_is_a_loop(pair: Pair):
    pair.far.define(sq.Queue("round", at=sq.Remote("near", queue="back"), group="customer"))
    links.accept(
        pair.far, "near", role=pair.role, other=str(pair.near.id), queues=["round"], actor="test", reason="a test"
    )
    pair.near.define(
        pair.link(queues=["back"]),
        sq.Queue("out", at=sq.Remote("far", queue="round"), group="customer"),
        sq.Queue("back", group="customer"),
    )
    pair.send(1, queue="out")
    transmit(pair.near)
    pair.far.tick()
    assert transmit(pair.near)[0].received == 1
    assert carried(pair.near, "back") == []
    (aside,) = roles.rows(pair.near, "SELECT reason FROM box.aside")
    assert aside[0].startswith("loop")


def test_idle_streams_are_closed_and_the_next_message_opens_another(databases):
    with paired(databases, stream_idle=1) as pair:
        pair.send(1)
        transmit(pair.near)
        roles.rows(pair.near, "UPDATE box.link_streams_out SET last_used = last_used - interval '1 minute'")
        transmit(pair.near)
        assert [one for one in links.transmission(pair.near) if one.direction == "out"] == []
        assert links.transmission(pair.far) == []
        pair.send(2)
        transmit(pair.near)
        (stream,) = links.transmission(pair.near)
        assert stream.number == 2
        assert carried(pair.far) == [("c1", 1, False), ("c1", 2, False)]


def test_a_link_that_is_down_says_why(pair: Pair):
    pair.near.define(sq.Link("nowhere", dsn="host=/nowhere dbname=x user=y"))
    (done,) = transmit(pair.near, "nowhere")
    assert "can't be reached" in done.error
    (link,) = links.status(pair.near, "nowhere")
    assert (link.state, link.box) == ("unpaired", None)
    with pytest.raises(sq.EnvironmentProblem, match="first contact failed"):
        links.add(pair.near, sq.Link("nowhere", dsn="host=/nowhere2 dbname=x user=y"))


def test_a_link_to_itself_and_to_no_box_is_refused(pair: Pair, postgresql):
    itself = sq.Link("itself", dsn=pair.near.dsn, schema=pair.near.schema)
    with pytest.raises(sq.EnvironmentProblem, match="this box itself"):
        links.add(pair.near, itself)
    with pytest.raises(sq.EnvironmentProblem, match="no message box"):
        links.add(pair.near, sq.Link("empty", dsn=postgresql))
    with pytest.raises(sq.UsageError, match="this box itself"):
        pair.near.define(sq.Link("me", dsn="host=/nowhere", box=str(pair.near.id)))


def test_a_pair_keeps_its_box_and_its_role(pair: Pair):
    other = "00000000-0000-4000-8000-000000000001"
    operator = {"actor": "test", "reason": "a test"}
    with pytest.raises(sq.ActionRefused, match="leads to the box"):
        links.accept(pair.far, "near", role=pair.role, other=other, **operator)
    with pytest.raises(sq.ActionRefused, match="is the other end of link 'near'"):
        links.accept(pair.far, "again", role=pair.role, other=str(pair.near.id), **operator)
    roles.make(pair.far, f"{pair.role}_2")
    with pytest.raises(sq.ActionRefused, match="--replace"):
        links.accept(pair.far, "near", role=f"{pair.role}_2", other=str(pair.near.id), **operator)
    links.accept(pair.far, "near", role=f"{pair.role}_2", other=str(pair.near.id), replace=True, **operator)
    pair.send(1)
    assert "refuses the role" in transmit(pair.near)[0].error
    with pytest.raises(sq.UsageError, match="no role"):
        links.accept(pair.far, "x", role="nobody_at_all", other=other, **operator)
    with pytest.raises(sq.UsageError, match="is no id of a box"):
        links.accept(pair.far, "x", role=pair.role, other="x", **operator)
    links.remove(pair.far, "near", force=True, **operator) if not links.status(pair.far) else None


def test_a_role_without_its_rights_speaks_on(pair: Pair):
    grant(pair.far, pair.role, see=["orders"])
    revoke(pair.far, pair.role)
    pair.send(1)
    assert transmit(pair.near)[0].error is None
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        roles.in_sql(pair.far, pair.role, "SELECT box.schema_version()")


def test_a_role_with_an_odd_name_speaks_until_it_is_dropped(pair: Pair):
    operator = {"actor": "test", "reason": "a test"}
    odd = f'{pair.role} "odd"'
    roles.make(pair.far, odd)
    accepted = {"other": str(pair.near.id), "queues": ["orders"], "replace": True, **operator}
    links.accept(pair.far, "near", role=odd, **accepted)
    may = "SELECT has_function_privilege(%s, 'box.link_push(bytea)', 'EXECUTE')"
    assert roles.rows(pair.far, may, [odd]) == [(True,)]
    for drop in ("DROP OWNED BY {}", "DROP ROLE {}"):
        roles.rows(pair.far, drop.format(sql.Identifier(odd).as_string()))
    links.accept(pair.far, "near", role=pair.role, **accepted)
    pair.send(1)
    assert transmit(pair.near)[0].error is None


def test_definitions_that_dont_fit_are_refused(pair: Pair):
    for wrong, match in (
        (lambda: sq.Queue("q", at="far"), "needs a group"),
        (lambda: sq.Queue("q", at="far", group="g", sequence="s", policy=sq.Standard()), "standard is for the box"),
        (lambda: sq.Queue("q", at=sq.Remote("far", lanes=3), group="g"), "lanes are for unordered"),
        (lambda: sq.Queue("q", at=sq.Remote("far", queue=""), group="g"), "queue: '' is not a queue's name"),
        (lambda: sq.Queue("q", at="far", group="g", retry=sq.Retry(3)), "attempts is for the box where"),
        (lambda: sq.Queue("q", at="far", group="g", gate="x"), "gate is for the box where"),
        (lambda: sq.Link("l", dsn="postgresql://u:secret@h/d"), "would be kept in the box"),
        (lambda: sq.Link("l", dsn="host=x", max_waiting=0), "max_waiting"),
        (lambda: sq.Link("l", dsn="host=x", box="no"), "box can't be"),
        (lambda: pair.near.define(sq.Queue("q", at="nowhere", group="customer")), "there is no link 'nowhere'"),
        (lambda: pair.near.define(sq.Service("s", queue="orders")), "a service has its queue here"),
        (
            lambda: pair.near.define(sq.Queue("from", group="customer", gate=sq.Gate("g", through=["orders"]))),
            "there is no queue|lie on the way",
        ),
    ):
        with pytest.raises(sq.UsageError, match=match):
            wrong()
    pair.send(1)
    with pytest.raises(sq.ActionRefused, match="at can't change"):
        pair.near.define(sq.Queue("orders", group="customer"))
    with pytest.raises(sq.ActionRefused, match="queues lead over it"):
        pair.near.drop(link="far")


def test_a_box_file_declares_links(pair: Pair, tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text(
        "links:\n  west:\n    dsn: host=/nowhere user=u password=$${SECRET} dbname=d\n    keep_sent: 1d\n"
        "queues:\n  parcels: {policy: fifo, at: west, group: customer}\n  pings: {policy: unordered, at: {link: west, queue: p, lanes: 2}}\n"
    )
    assert {str(one) for one in pair.near.apply(file)} == {
        "added link west",
        "added queue parcels",
        "added queue pings",
    }
    assert pair.near.apply(file) == []
    file.write_text("links:\n  west:\n    dsn: host=/nowhere password=open\n    keep_sent: long\n")
    with pytest.raises(sq.DeclarationError, match="keep_sent"):
        pair.near.apply(file)


def test_a_link_goes_with_what_waits_only_if_forced(pair: Pair):
    pair.near.define(ORDER)
    pair.send(1)
    (done,) = transmit(pair.near)
    assert done.acknowledged == 1
    operator = {"actor": "test", "reason": "a test"}
    with pytest.raises(sq.ActionRefused, match="queues lead over"):
        links.remove(pair.near, "far", **operator)
    with pytest.raises(sq.UsageError, match="there is no link"):
        links.remove(pair.near, "fra", **operator)
    assert links.remove(pair.far, "near", force=True, **operator) == 0 if not links.status(pair.far) else True


def test_the_doctor_tells_what_waits(pair: Pair):
    from seriatim.operations.doctor.box_checks import CHECKS

    check = CHECKS["links"]
    assert check(pair.near).found == "'far' is unpaired"  # nothing has passed yet
    transmit(pair.near)
    assert check(pair.near).state == check(pair.far).state == "ok"
    pair.send(1)
    roles.rows(pair.near, "UPDATE box.entries SET rank = 1")
    roles.rows(pair.near, "UPDATE box.known_links SET sent_at = '2020-01-01'")
    assert "nobody transmits: 'far'" in check(pair.near).found
    transmit(pair.near)
    assert check(pair.near).state == "ok"
    roles.rows(pair.far, f"REVOKE EXECUTE ON FUNCTION box.link_push(bytea) FROM {pair.role}")
    transmit(pair.near)
    assert "'far' is down" in check(pair.near).found


def test_a_queue_that_groups_by_something_else_there_is_warned_of(pair: Pair, caplog):
    from seriatim.operations.doctor.box_checks import CHECKS

    pair.far.define(sq.Queue("by-nth", group="nth", keep="everything"))
    links.accept(
        pair.far, "near", role=pair.role, other=str(pair.near.id), queues=["orders", "by-nth"], actor="a", reason="r"
    )
    pair.near.define(sq.Queue("mine", at=sq.Remote("far", queue="by-nth"), group="customer"))
    pair.send(1)
    transmit(pair.near)
    assert links.status(pair.near)[0].warnings == []
    pair.send(2, queue="mine")
    transmit(pair.near)
    (warning,) = links.status(pair.near)[0].warnings
    assert warning.startswith('the queue "mine" groups by "nth" there and by "customer" here')
    pair.send(3, customer="c2", queue="mine")
    transmit(pair.near)
    assert [one.getMessage() for one in caplog.records if "groups by" in one.getMessage()] == [f"link far: {warning}"]
    assert warning in CHECKS["links"](pair.near).found
    assert links.transmission(pair.near)[0].last_error is None


def test_a_stream_that_waits_by_a_clock_that_was_ahead_is_tried_again(pair: Pair):
    from seriatim.operations.doctor.box_checks import CHECKS

    pair.send(1)
    transmit(pair.near)
    pair.send(2)
    roles.rows(pair.near, "UPDATE box.link_streams_out SET next_try_at = clock_timestamp() + interval '1 day'")
    assert transmit(pair.near)[0].acknowledged == 0
    assert "1 stream, until " in CHECKS["times"](pair.near).found
    assert pair.near.tick(at_once=True).put_right == 1
    assert transmit(pair.near)[0].acknowledged == 1
    assert CHECKS["times"](pair.near).found == "nothing counts from a time that is still to come"


def test_publishers_are_refused_where_too_much_waits_for_a_link(databases):
    with paired(databases, max_waiting=5) as pair:
        pair.send(1, 2, 3)
        with pytest.raises(sq.QueueFull, match="more don't fit"):
            pair.send(4, 5, 6)
        pair.far.drop(queue="orders")
        assert transmit(pair.near)[0].acknowledged == 0  # on their way, they wait all the same
        with pytest.raises(sq.QueueFull):
            pair.send(4, 5, 6)
        pair.near.define(pair.link(queues=["answers"], max_waiting=6))
        pair.send(4, 5, 6)
        with pytest.raises(sq.QueueFull):
            pair.send(7)
        pair.far.define(sq.Queue("orders", group="customer"))
        for _ in range(2):
            transmit(pair.near, at_once=True)
        pair.send(7)
        transmit(pair.near)
        assert [nth for _, nth, _ in carried(pair.far)] == [1, 2, 3, 4, 5, 6, 7]
        publish = 'SELECT test.publish(\'order\', \'x\', context => \'{"to": "orders", "customer": "c1", "nth": 8}\') FROM generate_series(1, 6)'
        roles.rows(pair.near, publish)
        pair.near.tick()
        with pytest.raises(psycopg.Error, match="full"):
            roles.rows(pair.near, publish)


def test_what_a_pipeline_writes_into_a_remote_queue_is_sent(pair: Pair):
    import pyarrow as pa

    from seriatim.box.pipelines.incoming import Incoming
    from seriatim.box.pipelines.staging import Staging

    rows = pa.RecordBatch.from_pydict(
        {"type": ["order"] * 3, "customer": ["c1", "c2", "c1"], "nth": [1, 2, 3], "body": [b"1", b"2", b"3"]}
    )
    with Staging(pair.near.dsn, pair.near.schema, queue="orders", incoming=Incoming("order")) as staging:
        staging.merge("writer", 0, [staging.stage("writer", 0, [rows])])
    assert transmit(pair.near)[0].acknowledged == 3
    assert sorted(carried(pair.far)) == [("c1", 1, False), ("c1", 3, False), ("c2", 2, False)]


def test_what_leaves_by_a_remote_queue_leaves_its_gate(pair: Pair):
    gate = sq.Queue("gate", policy=sq.Standard(), group="origin_group", sequence="origin_ordinal")
    pair.near.define(sq.Queue("front", group="customer", gate="gate"), gate)
    pair.near.publish([order(nth, queue="front") for nth in (1, 2)])
    with pair.near.session() as tx:
        for message in tx.receive("front", limit=2):
            # The first result goes to the other box, the second one to the gate.
            tx.publish(order(message.context["nth"], queue="orders" if message.context["nth"] == 1 else "gate"))
    pair.near.tick()
    assert transmit(pair.near)[0].acknowledged == 1
    with pair.near.session() as tx:
        assert [message.context["nth"] for message in tx.receive("gate")] == [2]
    pair.far.tick()
    with pair.far.session() as tx:
        (message,) = list(tx.receive("orders"))
    assert not {name for name in message.context if name.startswith("origin_")}


def test_a_message_that_cant_be_stored_harms_its_own_stream_only(pair: Pair):
    pair.send(1, customer="c1")
    pair.send(2, customer="c2")
    transmit(pair.near)
    for customer in ("c1", "c2", "c3"):
        pair.send(3, customer=customer)
    # What its chain stands for is as it was published; what was published says nothing that a header can.
    roles.rows(
        pair.near,
        "UPDATE box.spool SET context = context || '{\"nth\": {\"no\": 1}}' WHERE context ->> 'customer' = 'c1' AND context ->> 'nth' = '3'",
    )
    assert transmit(pair.near)[0].acknowledged == 2
    waits = [one for one in links.transmission(pair.near, waiting=True) if one.direction == "out"]
    assert [(one.key, one.acknowledged, one.sent) for one in waits] == [("c1", 1, 2)]
    assert "its header" in waits[0].last_error
    assert sorted(carried(pair.far)) == [("c1", 1, False), ("c2", 2, False), ("c2", 3, False), ("c3", 3, False)]


def test_a_message_with_more_properties_than_travel_is_set_aside(pair: Pair):
    pair.near.define(sq.MessageType("order", properties={"customer": "string", "nth": "long", "note": "string"}))
    pair.near.publish(
        sq.Message(type="order", context={"to": "orders", "customer": "c1", "nth": 1, "note": "x" * 1_100_000})
    )
    pair.send(2, customer="c1")
    transmit(pair.near)
    (aside,) = set_aside.set_aside(pair.near, status="invalid")
    assert (aside.queue, aside.reason) == (
        "orders",
        "its properties have more than 1 MB, which can't travel over a link",
    )
    transmit(pair.near)
    assert [nth for _, nth, _ in carried(pair.far)] == [2]


def test_a_trace_tells_what_was_sent_and_when_it_was_acknowledged(databases):
    from seriatim.operations.trace import trace_message

    with paired(databases, keep_sent="1d") as pair:
        transmit(pair.near)
        pair.far.drop(queue="orders")
        (message_id,) = pair.send(1)
        transmit(pair.near)
        *_, step = trace_message(pair.near, message_id)
        assert (step.kind, step.at, step.queue, step.group) == ("waits", None, "orders", "c1")
        assert 'not acknowledged (there is no queue "orders")' in step.text
        pair.far.define(sq.Queue("orders", group="customer"))
        transmit(pair.near, at_once=True)
        *_, step = trace_message(pair.near, message_id)
        assert step.kind == "done"
        assert step.at is not None
        assert f"to queue orders of box {pair.far.id} over link far: message 1 of stream 1/1, acknowledged" in step.text
