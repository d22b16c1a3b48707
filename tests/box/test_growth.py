"""What a call costs grows with the number of its messages, and no faster: function calls and rows read are counted for few and for many."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from functools import partial

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import seriatim as sq
from seriatim.operations import bulk, dead_letters, groups
from seriatim.operations import bulk_operations as operations
from seriatim.operations.groups import Action, GroupFilter
from seriatim.operations.links import transmit as transmit_of_box
from seriatim.operations.messages import messages
from tests.box.links.backups import back_up, restore
from tests.box.links.pairs import order, paired
from tests.dialogs.far_boxes import exchange, two_boxes
from tests.soak import sized

pytestmark = [pytest.mark.dear, pytest.mark.soak]

#: Sixteen times as many may cost at most twenty times as much; of a few, what is done for a portion of them counts more.
FEW, FACTOR = sized(1_000, 200), sized(20, 24)
MANY = 16 * FEW
#: What doesn't depend on the number: looks for definitions, for the head of a queue now and then, and the like.
SPARE = 500
#: What is counted; rows and entries of indexes together, because a small table is read as a whole.
KINDS = {"calls": ("calls of ",), "reads": ("rows of ", "entries of ")}
PATIENCE_S = 180.0
#: Looks for the head of a queue go by the clock, so that a slow machine has more of them: each second at most one of a process
#: (`Heads`), each ten seconds one of a transaction (`reach`). Each may read all that these indexes have of their tables.
LOOKED, LOOK_S = {"entries of entries_arrived": "entries", "entries of groups_ready": "known_groups"}, 10.0
BY = {"actor": "ann", "reason": "a test"}
NUMBERS = itertools.count()
JOB = sq.MessageType("job", properties={"key": "string", "n": "long"})
QUEUES = [
    sq.Queue("unordered", sq.Unordered()),
    sq.Queue("fifo", sq.Fifo(), group="key"),
    sq.Queue("standard", sq.Standard(), group="key", sequence="n"),
    sq.Queue("best", sq.BestEffort(), group="key", sequence="n"),
    sq.Queue("origin", sq.Fifo(), group="key", gate="gate"),
    sq.Queue("gate", sq.Standard(), group="origin_group", sequence="origin_ordinal"),
    sq.Queue("failing", sq.Standard(), group="key", sequence="n", retry=sq.Retry(1)),
    sq.Queue("dead", sq.Fifo(), group="key", errors="continue", retry=sq.Retry(1)),
]  # fmt: skip
DIALOGS = [
    sq.Contract("Talk", {"job": "initiator"}),
    sq.Service("Near", queue="near"),
    sq.Service("Far", queue="far", contracts=["Talk"]),
]


def job(queue, key, n=1, **more):
    return sq.Message(type="job", context={"to": queue, "key": key, "n": n, **more})


def keys(many):
    """As many keys, which no call before had."""
    return [f"{next(NUMBERS)}" for _ in range(many)]


def publish(queue, *, in_one_group=False, delay=None, **more):
    def publish(box, many):
        given = [
            job(queue, f"of {many}" if in_one_group else key, n if in_one_group else 1,
                **dict.fromkeys(more, key)) for n, key in enumerate(keys(many), 1)
        ]  # fmt: skip
        with box.session() as tx:
            tx.publish(given, **({} if delay is None else {"delay": delay}))

    return publish


def publish_each(queue):
    def publish(box, many):
        for n in range(many):
            with box.session() as tx:
                tx.publish([job(queue, f"each of {many}", n + 1)])

    return publish


def publish_by_sql(box, many):
    with box.session() as tx:
        tx.connection.execute(
            f"SELECT {box.schema}.publish('job', '', jsonb_build_object('to', 'fifo', 'key', 'sql %s ' || n)) "
            f"FROM generate_series(1, %s) AS n",
            [many, many],
        )


def receive(queue, limit):
    def receive(box, many):
        with box.session() as tx:
            got = 0
            while (delivery := tx.receive(queue, limit=limit)) is not None:
                got += len(list(delivery))
        assert got == many

    return receive


def nothing(box, many):
    """There is nothing to prepare."""


def pass_on(box, many):
    with box.session() as tx:
        while (delivery := tx.receive("origin", limit=many)) is not None:
            for one in delivery:
                tx.publish([job("gate", one.context["key"])])


def begin_dialogs(box, many, **more):
    with box.session() as tx:
        for _ in range(many):
            handle = tx.begin_dialog("Near", "Far", contract="Talk", **more)
            tx.send(handle, "job", b"{}")


def send_much(box, many):
    with box.session() as tx:
        handle = tx.begin_dialog("Near", "Far", contract="Talk")
        tx.send_many([(handle, "job", b"{}")] * many)


def end_dialogs(box, many):
    with box.session() as tx:
        while (delivery := tx.receive("far", limit=many)) is not None:
            for one in delivery:
                tx.end(one.dialog.handle)
        while (delivery := tx.receive("near", limit=many)) is not None:
            for one in delivery:
                tx.end(one.dialog.handle)


def route(box, many):
    box.tick()


def fail(queue):
    def fail(box, many):
        given = set(keys(many))
        with box.session() as tx:
            tx.publish([job(queue, key) for key in given])

        def handle(message, tx):
            if message.context["key"] in given:
                raise sq.Business("no")

        sq.Worker(box, queue, handle, workers=1).run(until_idle=True)

    return fail


def in_bulk(action):
    def act(box, many):
        views = bulk.chosen(box, Action(action), GroupFilter("failing"))
        assert len(views) == many
        found = operations.gather(box, Action(action), views, chosen_by={"queue": "failing"}, at_once=False, **BY)
        operations.begin(box, found.bulk_id)
        *_, last = operations.follow(box, found.bulk_id)
        assert last.done == many

    return act


def requeue(box, many):
    found = dead_letters.dead_letters(box, "dead", limit=many)
    assert len(found) == many
    dead_letters.requeue_each(box, found, **BY)


#: By name: what has to be there, and what is counted.
def look(listed, queue, **filters):
    def look(box, many):
        assert len(list(listed(box, queue=queue, limit=many, **filters))) == many

    return look


WAYS = {
    "publish": (nothing, publish("unordered")),
    "publish with unique keys": (nothing, publish("unordered", unique_key=True)),
    "publish with locations": (nothing, publish("unordered", location=True)),
    "publish with a delay": (nothing, publish("fifo", delay=3600.0)),
    "publish into groups": (nothing, publish("fifo")),
    "publish into one group": (nothing, publish("standard", in_one_group=True)),
    "publish to a gate's origin": (nothing, publish("origin")),
    "publish by SQL": (nothing, publish_by_sql),
    "route": (publish_by_sql, route),
    "begin dialogs": (nothing, begin_dialogs),
    "send in one dialog": (nothing, send_much),
    "end dialogs": (begin_dialogs, end_dialogs),
    "receive one by one": (publish("unordered"), receive("unordered", 1)),
    "receive portions": (publish("unordered"), receive("unordered", 100)),
    "receive groups of Fifo": (publish("fifo"), receive("fifo", 10)),
    "receive groups of Standard": (publish("standard"), receive("standard", 10)),
    "receive groups of BestEffort": (publish("best"), receive("best", 10)),
    "complete all at once": (publish("fifo", in_one_group=True), receive("fifo", 100_000)),
    "receive a long group of Fifo": (publish("fifo", in_one_group=True), receive("fifo", 10)),
    "receive a long group of Standard": (publish("standard", in_one_group=True), receive("standard", 10)),
    "receive a long group of BestEffort": (publish("best", in_one_group=True), receive("best", 10)),
    "receive a long group one by one": (publish_each("fifo"), receive("fifo", 1)),
    "receive dialogs": (begin_dialogs, receive("far", 10)),
    "receive dialogs with a lifetime": (partial(begin_dialogs, lifetime=3600.0), receive("far", 10)),
    "pass on to a gate": (publish("origin"), pass_on),
    "receive from a gate": (lambda box, many: (publish("origin")(box, many), pass_on(box, many)), receive("gate", 10)),
    "fail for good": (nothing, fail("failing")),
    "look for groups": (publish("standard"), look(groups.groups, "standard")),
    "look for what waits": (publish("standard"), look(messages, "standard", status="arrived")),
    "retry in bulk": (fail("failing"), in_bulk("retry")),
    "skip in bulk": (fail("failing"), in_bulk("skip_message")),
    "requeue": (fail("dead"), requeue),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_calls_and_rows_grow_with_the_number(box_of_ways, way):
    share = 4 if way == "requeue" else 1  # which is done one by one
    few, many = (counted(box_of_ways, number // share, *WAYS[way]) for number in (FEW, MANY))
    assert {kind: grown for kind in KINDS if (grown := worst(kind, few, many))} == {}


def publish_to_the_other_box(box, many):
    with box.session() as tx:
        tx.publish([order(1, key) for key in keys(many)])


def transmit(box, many):
    sent = 0
    while (done := transmit_of_box(box)[0].sent) > 0:
        sent += done
    assert sent == many


def transmit_after_an_empty_round(box, many):
    """The statements of a round were planned when there was nothing on its way."""
    transmit(box, 0)
    publish_to_the_other_box(box, many)
    transmit(box, many)


@pytest.mark.parametrize(
    ("prepare", "act"),
    [
        (nothing, publish_to_the_other_box),
        (publish_to_the_other_box, transmit),
        (nothing, transmit_after_an_empty_round),
    ],
)
def test_calls_and_rows_of_a_link_grow_with_the_number(databases, prepare, act):
    with paired(databases) as pair:
        for one in (pair.near, pair.far):
            without_autovacuum(one)
        with psycopg.connect(pair.far.dsn, autocommit=True) as owner:
            owner.execute(sql.SQL("ALTER ROLE {} SET track_functions = 'all'").format(sql.Identifier(pair.role)))
        # Many first: the plans of the first round are those of empty tables.
        many, few = (counted(pair.near, number, prepare, act, pair) for number in (MANY, FEW))
        if act is publish_to_the_other_box:
            transmit(pair.near, FEW + MANY)
    assert {kind: grown for kind in KINDS if (grown := worst(kind, few, many))} == {}


def goes_back(south):
    def prepare(north, many):
        """The south was restored to a time before the dialogs, and each of them has something to say."""
        back_up(south)
        with north.session() as tx:
            handles = [tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder") for _ in range(many)]
            tx.send_many([(one, "Header", b"") for one in handles])
        exchange(north)
        restore(south)
        with north.session() as tx:
            tx.send_many([(one, "Line", b"") for one in handles])

    return prepare


def test_calls_and_rows_of_a_restore_grow_with_the_number_of_dialogs(databases):
    found = []
    for number in (25, 16 * 25):
        with two_boxes(databases) as (north, south):
            without_autovacuum(north)
            found.append(counted(north, number, goes_back(south), lambda box, _: exchange(box, 1)))
            with north.session() as tx:
                noted = "SELECT count(DISTINCT conversation_id), count(*) FROM {}.dialog_inbox WHERE said ->> 'kind' = 'restored'"
                assert tx.connection.execute(noted.format(north.schema)).fetchone() == (number, number)
    assert {kind: grown for kind in KINDS if (grown := worst(kind, *found))} == {}


def worst(kind, few, many):
    """Where the numbers of a kind grow too much in all: those that have grown most."""
    named = [name for name in many if name.startswith(KINDS[kind])]
    totals = [sum(one.get(name, 0) for name in named) for one in (few, many)]
    if totals[1] <= FACTOR * totals[0] + SPARE:
        return []
    named.sort(key=lambda name: few.get(name, 0) - many[name])
    return [("all", *totals), *((name, few.get(name, 0), many[name]) for name in named[:4])]


def counted(box, many, prepare, act, pair=None):
    """What an act costs in a box, and in the other one of a pair, where the role of its link does it."""
    prepare(box, many)
    with ExitStack() as around:
        name = f"counted {next(NUMBERS)}"
        places = [(box, "", "application_name", name), *([(pair.far, "far ", "usename", pair.role)] if pair else [])]
        owners = [around.enter_context(psycopg.connect(one.dsn, autocommit=True)) for one, *_ in places]
        for owner in owners:
            owner.execute("ANALYZE")
        before = figures(owners, places)
        dsn = make_conninfo(box.dsn, application_name=name, options="-c track_functions=all")
        began = time.monotonic()
        with sq.MessageBox.open(dsn, schema=box.schema) as other:
            act(other, many)
        turns_of_the_clock = (time.monotonic() - began) // LOOK_S
        deadline = time.monotonic() + PATIENCE_S
        for owner, (_, _, column, value) in zip(owners, places, strict=True):
            query = f"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND {column} = %s)"
            while owner.execute(query, [value]).fetchone()[0]:  # connections tell what they have read when they end
                assert time.monotonic() < deadline
        after = figures(owners, places)
        found = {name: int(number - before.get(name, 0)) for name, number in after.items()}
        looks = found.get("calls of head_of", 0) + 2 * turns_of_the_clock
        for index, table in LOOKED.items():
            size = owners[0].execute(
                "SELECT pg_stat_get_live_tuples(%s::regclass) + pg_stat_get_dead_tuples(%s::regclass)",
                [f"{box.schema}.{table}"] * 2,
            )
            found[index] = max(0, found[index] - int(looks * size.fetchone()[0]))
    return found


def without_autovacuum(box):
    """An ANALYZE that runs by chance keeps what is dead in the indexes, and so makes each look read more."""
    with psycopg.connect(box.dsn, autocommit=True) as owner:
        for (table,) in owner.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
            [box.schema],
        ).fetchall():
            owner.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = FALSE)")


def figures(owners, places):
    """How often each function was called, and how many rows of each table and entries of each index were read."""
    query = """
        SELECT 'calls of ' || %(which)s || funcname, sum(calls) FROM pg_stat_user_functions
        WHERE schemaname = %(schema)s GROUP BY 1
        UNION ALL
        SELECT 'rows of ' || %(which)s || relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
        FROM pg_stat_user_tables WHERE schemaname = %(schema)s
        UNION ALL
        SELECT 'entries of ' || %(which)s || indexrelname, idx_tup_read FROM pg_stat_user_indexes
        WHERE schemaname = %(schema)s
    """
    found = {}
    for owner, (box, which, _, _) in zip(owners, places, strict=True):
        found |= dict(owner.execute(query, {"schema": box.schema, "which": which}).fetchall())
    return found


@pytest.fixture
def box_of_ways(box):
    box.define(JOB, *QUEUES, *DIALOGS)
    without_autovacuum(box)
    return box
