"""Publishing from SQL: taken in with the caller's transaction, routed afterwards, in order with all else."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import seriatim as sq
from seriatim.box.connection.access import Transaction
from seriatim.box.publishing import sql_arrivals as pending
from seriatim.box.tick import Tick
from seriatim.box.turns.turns import Turns
from tests.box.given_up import given_up
from tests.databases import box_with

DEADLINE_S = 120.0


def with_queues(box):
    """A box with queues of every kind of order, and a publisher in SQL."""
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "amount": "decimal(12,2)"}),
        sq.Queue("all", policy=sq.Fifo(), group="customer"),
        sq.Queue("large", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("any", policy=sq.Unordered()),
        sq.Subscription("every", where="type = 'order' AND customer <> 'nobody'", to="all"),
        sq.Subscription("large", where="amount >= 100", to="large"),
        sq.Subscription("mail", where="type = 'mail'", to="any"),
    )


queues = box_with(with_queues)


def published(box, *arguments, connection=None):
    """Call the function with positional arguments."""
    places = ", ".join(["%s"] * len(arguments))
    statement = f"SELECT {box.schema}.publish({places})"
    if connection is not None:
        return connection.execute(statement, arguments).fetchone()[0]
    with psycopg.connect(box.dsn) as own:
        return own.execute(statement, arguments).fetchone()[0]


def order(box, customer, version=1, amount=1, **more):
    return published(box, "order", b"{}", f'{{"customer": "{customer}", "version": {version}, "amount": {amount}}}')


def drained(box, queue):
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=100)
            if delivery is None:
                return found
            found += list(delivery)


def rows(box, query):
    with box.session() as tx:
        return tx.connection.execute(query.replace("{schema}", box.schema)).fetchall()


def test_it_is_received_as_it_was_published(queues):
    with psycopg.connect(queues.dsn) as connection:
        published(
            queues, "order", b"\0\xff", '{"customer": "c1", "version": 1, "amount": 120.50}', "m-1", "text/plain",
            connection=connection,
        )  # fmt: skip
    (one,) = drained(queues, "all")
    assert (one.message_id, one.type, one.body, one.content_type) == ("m-1", "order", b"\0\xff", "text/plain")
    assert one.context == {"customer": "c1", "version": 1, "amount": one.context["amount"]}
    assert str(one.context["amount"]) == "120.50"
    assert (one.ticket, one.ordinal, one.subscriptions) == (("box", 0, 1), 1, ("every",))
    (two,) = drained(queues, "large")
    assert (two.message_id, two.sequence) == ("m-1", 1)
    assert rows(queues, "SELECT destinations FROM {schema}.spool") == [(2,)]  # both have it: left to the clean-up
    order(queues, "c1")
    assert len(drained(queues, "all")) == 1
    assert rows(queues, "SELECT count(*) FROM {schema}.spool") == [(1,)]


def test_a_trigger_on_an_applications_table_publishes(queues):
    table, schema = f"{queues.schema}_orders", queues.schema
    with psycopg.connect(queues.dsn) as connection:
        connection.execute(f"CREATE TABLE {table} (id int, customer text)")
        connection.execute(
            f"CREATE FUNCTION {table}_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"PERFORM {schema}.publish('order', convert_to(to_jsonb(new)::text, 'UTF8'), "
            "jsonb_build_object('customer', new.customer)); RETURN NULL; END $$"
        )
        connection.execute(f"CREATE TRIGGER out AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_out()")
        connection.commit()
        connection.execute(f"INSERT INTO {table} SELECT n, 'c' || n % 3 FROM generate_series(1, 30) AS n")
        assert drained(queues, "all") == []  # nothing is seen before the commit
        connection.commit()
        with given_up(connection.transaction()):
            connection.execute(f"INSERT INTO {table} VALUES (31, 'c1')")
        with connection.transaction():  # a savepoint that is taken back, too
            connection.execute(f"INSERT INTO {table} VALUES (32, 'c1')")
            with given_up(connection.transaction()):
                connection.execute(f"INSERT INTO {table} VALUES (33, 'c1')")
    found = drained(queues, "all")
    assert sorted(one.ticket.number for one in found) == list(range(1, 32))
    for customer in ("c0", "c1", "c2"):
        ids = [int(one.body.split(b'"id": ')[1].split(b",")[0]) for one in found if one.context["customer"] == customer]
        assert ids == sorted(ids)
        assert len(ids) in (10, 11)
    assert rows(queues, "SELECT count(*) FROM {schema}.to_route") == [(0,)]


def test_published_again_it_changes_nothing(queues):
    for body in (b"1", b"2"):
        assert published(queues, "order", body, '{"customer": "c1"}', "same") == "same"
    with queues.session() as tx:
        tx.publish(sq.Message(type="order", message_id="same", context={"customer": "c1"}))
    assert [one.body for one in drained(queues, "all")] == [b"1"]


def test_ids_are_new_and_sort_by_time(queues):
    with psycopg.connect(queues.dsn) as connection:
        statement = f"SELECT {queues.schema}.publish('order', '') FROM generate_series(1, 200)"
        ids = [one for (one,) in connection.execute(statement).fetchall()]
    assert len(set(ids)) == 200
    assert [one[:13] for one in ids] == sorted(one[:13] for one in ids)
    assert {(one[14], one[19] in "89ab") for one in ids} == {("7", True)}
    assert abs(int(ids[0][:13].replace("-", ""), 16) / 1000 - time.time()) < 3600


def test_the_location_is_an_argument_or_a_property(queues):
    with psycopg.connect(queues.dsn) as connection:
        statement = f"SELECT {queues.schema}.publish('order', '', %s::jsonb, location => %s)"
        connection.execute(statement, ['{"customer": "c"}', "crm"])
        connection.execute(statement, ['{"customer": "c", "location": "erp"}', "box"])
        connection.execute(statement, ['{"customer": "c"}', "box"])
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="twice"), connection.transaction():
            connection.execute(statement, ['{"location": "erp"}', "crm"])
    found = drained(queues, "all")
    assert sorted(one.ticket.location for one in found) == ["box", "crm", "erp"]
    assert sorted(one.context.get("location", "-") for one in found) == ["-", "crm", "erp"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("", b""), "needs a type"),
        ((None, b""), "needs a type"),
        (("order", None), "body of a message can't be NULL"),
        (("order", b"", "[1]"), "JSON object"),
        (("order", b"", None), "JSON object"),
        (("order", b"", '{"a": {"b": 1}}'), 'property "a" can\'t be an object'),
        (("order", b"", '{"a": [1]}'), 'property "a" can\'t be an array'),
        (("order", b"", '{"ticket": 1}'), "box gives it"),
        (("order", b"", '{"type": "x"}'), "box gives it"),
        (("order", b"", '{"a": 1e200}'), "more digits"),
        (("order", b"", '{"location": 7}'), "not a location's name"),
        (("order", b"", "{}", ""), "id of a message can't be empty"),
        (("order", b"", "{}", None, ""), "content type of a message can't be empty"),
        (("order", b"", "{}", None, None, ""), "1 to 128"),
        (("order", b"", "{}", None, None, None), "1 to 128"),
        (("order", b"", "{}", None, None, "x" * 129), "1 to 128"),
    ],
)
def test_what_is_no_message_is_refused(queues, arguments, why):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=why):
        published(queues, *arguments)
    assert rows(queues, "SELECT count(*) FROM {schema}.spool") == [(0,)]


def test_what_has_no_destination_or_a_fault_is_unrouted_and_stops_nothing(queues):
    published(queues, "order", b"", '{"customer": "nobody"}', "unwanted")
    published(queues, "order", b"", '{"colour": "red"}', "undeclared")
    published(queues, "strange", b"", '{"n": 99999999999999999999999}', "long")
    published(queues, "order", b"", '{"customer": "c1", "to": "nowhere"}', "astray")
    published(queues, "order", b"", '{"customer": "c1", "to": "any"}', "addressed")
    order(queues, "c1")
    assert len(drained(queues, "all")) == 2
    assert [one.message_id for one in drained(queues, "any")] == ["addressed"]
    told = dict(
        rows(
            queues, "SELECT message_id, problem FROM {schema}.unrouted JOIN {schema}.spool USING (arrival_id, position)"
        )
    )
    assert told.keys() == {"unwanted", "undeclared", "long", "astray"}
    assert told["unwanted"] is None
    assert "colour" in told["undeclared"]
    assert "'nowhere', which is no queue" in told["astray"]


def test_the_last_of_a_set_with_the_highest_number_stops_nothing(box):
    box.define(
        sq.MessageType("part", properties={"key": "string", "n": "long", "final": "boolean"}),
        sq.Queue("parts", policy=sq.UnitOfWork(last="final", start=0), group="key", sequence="n"),
        sq.Subscription("parts", where="type = 'part'", to="parts"),
    )
    for key, n in (("a", 2**63 - 1), ("b", 0)):
        published(box, "part", b"", f'{{"key": "{key}", "n": {n}, "final": true}}')
    assert [(one.context["key"], one.sequence) for one in drained(box, "parts")] == [("b", 0)]


@pytest.fixture
def refusing(queues):
    """PostgreSQL refuses entries of the group `wrong`."""
    with psycopg.connect(queues.dsn) as connection:
        connection.execute(
            f"CREATE FUNCTION {queues.schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RAISE ''value out of range'' USING ERRCODE = ''22003''; END';"
            f"CREATE TRIGGER refuse BEFORE INSERT ON {queues.schema}.entries FOR EACH ROW"
            f" WHEN (new.group_key = 'wrong') EXECUTE FUNCTION {queues.schema}.refuse()"
        )
    return queues


def publish_orders(box, *customers):
    with psycopg.connect(box.dsn) as connection:
        for customer in customers:
            published(box, "order", b"", f'{{"customer": "{customer}"}}', connection=connection)


def test_a_message_with_a_value_that_postgresql_refuses_is_unrouted_and_stops_no_other(refusing):
    publish_orders(refusing, "c1", "wrong", "c2", "wrong")
    assert refusing.tick().routed == 4
    assert [one.context["customer"] for one in drained(refusing, "all")] == ["c1", "c2"]
    assert rows(refusing, "SELECT problem FROM {schema}.unrouted") == [("value out of range",)] * 2
    assert refusing.tick().routed == 0


def test_after_a_refused_message_the_others_are_routed_together_again(refusing):
    publish_orders(refusing, "wrong", *["c"] * 60)
    assert refusing.tick().routed == 61
    sizes = rows(refusing, "SELECT count(*) FROM {schema}.entries GROUP BY xmin::text ORDER BY 1")
    assert [size for (size,) in sizes] == [2, 4, 8, 16, 30]


def test_a_waiting_receiver_is_woken_wherever_it_waits(queues):
    woken = {}

    def receive(queue):
        with queues.session() as tx:
            delivery = tx.receive(queue, wait=DEADLINE_S)
            woken[queue] = None if delivery is None else [one.message_id for one in delivery]

    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(receive, queue) for queue in ("any", "all")]
        until(lambda: rows(queues, "SELECT count(*) FROM {schema}.waiters") == [(2,)])
        published(queues, "order", b"", '{"customer": "c1"}', "for all")  # the first who waits is one of `any`, maybe
        published(queues, "mail", b"", "{}", "for any")
        for one in waiting:
            one.result()
    assert woken == {"any": ["for any"], "all": ["for all"]}


def until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def test_batches_are_of_many_and_of_few_bytes(queues, monkeypatch):
    monkeypatch.setattr(pending, "_MOST_MESSAGES", 7)
    monkeypatch.setattr(pending, "_MOST_BYTES", 100)
    with psycopg.connect(queues.dsn) as connection:
        for n in range(40):
            body = b"x" * (60 if n % 3 else 1)
            published(queues, "order", body, '{"customer": "c1"}', f"{n:02}", connection=connection)
    assert [one.message_id for one in drained(queues, "all")] == [f"{n:02}" for n in range(40)]


def test_what_a_transaction_has_published_and_numbered_itself_does_not_stop_it(queues):
    order(queues, "other")
    with queues.session() as tx:
        published(queues, "order", b"", '{"customer": "mine"}', connection=tx.connection)
        tx.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        delivery = tx.receive("all")
        assert delivery.group == "other"
        delivery.done()
        assert tx.receive("all") is None
    assert [one.context["customer"] for one in drained(queues, "all")] == ["mine"]


def test_nothing_that_came_later_is_judged_before(queues):
    order(queues, "c1")
    with queues.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c1"}, message_id="later"))
    # A turn that doesn't route, as one of a role that may not.
    with psycopg.connect(queues.dsn) as connection:
        transaction = Transaction(queues.access, connection)
        definitions = queues.access.known.read(transaction)
        turns = Turns(transaction)
        locked = turns.lock(definitions.queue("all"))
        assert locked.unrouted
        assert turns.look(definitions.queue("all"), locked, 10, wary=True) is None
        assert turns.judge(definitions.queue("all"), locked, 10).handed == []
    assert [one.ticket.number for one in drained(queues, "all")] == [1, 2]


def test_a_hole_is_not_given_up_while_what_fills_it_waits_to_be_routed(box):
    box.define(
        sq.MessageType("step", properties={"key": "string", "n": "long"}),
        sq.Queue("steps", policy=sq.Standard(start=1, hole_timeout="1ms"), group="key", sequence="n"),
        sq.Subscription("steps", where="type = 'step'", to="steps"),
    )
    with box.session() as tx:
        tx.publish(sq.Message(type="step", context={"key": "k", "n": 2}))
    published(box, "step", b"", '{"key": "k", "n": 1}')
    assert [(one.sequence, one.late) for one in drained(box, "steps")] == [(1, False), (2, False)]


def test_a_filter_that_looks_at_the_time_sees_when_it_was_published(box):
    box.define(
        sq.Queue("old", policy=sq.Unordered()),
        sq.Subscription("old", where="received_at < TIMESTAMP '2020-01-01 00:00:00'", to="old"),
    )
    for name in ("a", "b", "c"):
        published(box, "note", b"", "{}", name)
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.spool SET received_at = '2019-01-01' WHERE message_id = 'b'")
    assert [one.message_id for one in drained(box, "old")] == ["b"]


def test_definitions_that_change_meanwhile_are_followed(queues):
    order(queues, "c1")
    with sq.MessageBox.open(queues.dsn, schema=queues.schema) as other:
        other.define(sq.Subscription("mail", where="type = 'order'", to="any"))
    assert len(drained(queues, "any")) == 1
    assert len(drained(queues, "all")) == 1


def test_a_tick_routes_and_fires_timers(box):
    box.define(
        sq.MessageType("step", properties={"key": "string", "n": "long"}),
        sq.Queue("steps", policy=sq.Standard(start=1, hole_timeout="1ms"), group="key", sequence="n"),
        sq.Subscription("steps", where="type = 'step'", to="steps"),
    )
    published(box, "step", b"", '{"key": "k", "n": 2}')
    assert box.tick() == Tick(routed=1, groups=1)
    with box.session() as tx:
        assert tx.receive("steps") is None
    until(lambda: box.tick().groups == 1 or rows(box, "SELECT due_at FROM {schema}.known_groups") == [(None,)])
    assert box.tick() == Tick(routed=0, groups=0)


def test_in_order_with_python_publishers_under_load(queues):  # noqa: C901 -- four parts, each of its own thread
    """Of one location and group messages leave by ticket, whoever published them, and each once."""
    each, groups, seen, lock = 60, 4, [], threading.Lock()
    stop = threading.Event()

    def in_python(number):
        for n in range(each):
            with queues.session() as tx:
                messages = [
                    sq.Message(type="order", context={"customer": f"g{(n + k) % groups}"}, body=b"python")
                    for k in range(1 + n % 3)
                ]
                tx.publish(messages)

    def in_sql(number):
        with psycopg.connect(queues.dsn) as connection:
            for n in range(each):
                for k in range(1 + n % 3):
                    context = f'{{"customer": "g{(n + k) % groups}"}}'
                    published(queues, "order", b"sql", context, connection=connection)
                connection.rollback() if n % 5 == 4 else connection.commit()

    def receive():
        while True:
            with queues.session() as tx:
                delivery = tx.receive("all", limit=5)
                if delivery is None:
                    if stop.is_set():
                        return
                    continue
                with lock:  # the group is locked until the transaction ends: what is noted is in its order
                    seen.extend((delivery.group, one.ticket.number, one.body) for one in delivery)

    with ThreadPoolExecutor(7) as threads:
        receivers = [threads.submit(receive) for _ in range(3)]
        publishers = [threads.submit(kind, n) for n in range(2) for kind in (in_python, in_sql)]
        for one in publishers:
            one.result()
        stop.set()
        for one in receivers:
            one.result()
    seen += [(one.context["customer"], one.ticket.number, one.body) for one in drained(queues, "all")]
    numbers = [number for _, number, _ in seen]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert {body for _, _, body in seen} == {b"python", b"sql"}
    for group in range(groups):
        mine = [number for key, number, _ in seen if key == f"g{group}"]
        assert mine == sorted(mine)
    assert rows(queues, "SELECT count(*) FROM {schema}.unrouted") == [(0,)]


def test_the_hot_reads_go_by_their_index(queues):
    """With many that wait, the first are found by the index, not by reading all."""
    with queues.session() as tx:
        tx.connection.execute(
            f"INSERT INTO {queues.schema}.to_route (arrival_id, position, stamp, serial, publisher)"
            " SELECT n, 0, n, n, 'x' FROM generate_series(1, 20000) AS n"
        )
        tx.connection.execute(f"ANALYZE {queues.schema}.to_route")
        plan = tx.connection.execute(
            f"EXPLAIN SELECT * FROM {queues.schema}.to_route ORDER BY stamp, serial LIMIT 1000"
        ).fetchall()
        assert "to_route_in_order" in str(plan)
        plan = tx.connection.execute(f"EXPLAIN SELECT min(stamp) FROM {queues.schema}.to_route").fetchall()
        assert "to_route_in_order" in str(plan)
        tx.connection.rollback()
