"""A page of groups costs what is on it, and all pages together are all groups that fit, each once and in order."""

from __future__ import annotations

import random
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seriatim as sq
from seriatim.box.faults.faults import fail
from seriatim.box.turns.turns import Turns
from seriatim.box.views.groups import GroupFilter, groups_of
from seriatim.kernel.groups.states import STOPPED, GroupState
from seriatim.operations import groups
from tests.box import roles
from tests.box.console import BUSINESS, BY
from tests.databases import box_with

NUMBER = sq.Standard(on_hole="wait")
QUEUES = ("a-standard", "b-sets", "c-fifo", "d-types", "e-unordered", "f-empty")
TYPE = sq.MessageType("order", properties={"customer": "string", "version": "long", "queue": "string"})
#: Keys of which several begin alike, with characters at whose ends an index could be left too early.
KEYS = [f"{beginning}{n}" for beginning in ("", "a", "ab", "a%", "é", "\ud7ff", "\U0010ffff") for n in range(6)]
LARGE, PAGE = 3_000, 50


def messages(queue, *pairs):
    return [sq.Message(type="order", context={"customer": key, "version": n, "queue": queue}) for key, n in pairs]


def fails(box, queue, group):
    """The first message of a group fails for good, if it can be handed out."""
    with box.session() as tx:
        delivery = tx.receive(queue, group=group, limit=1)
        if delivery is not None:
            fail(tx.transaction, delivery, 0, 1, BUSINESS)


def with_groups(box):
    """A box with groups in all states: judged or not, stopped for each reason, and a queue that has none."""
    chance = random.Random(4711)
    box.define(
        TYPE,
        sq.Queue("a-standard", NUMBER, group="customer", sequence="version", attempts=1),
        sq.Queue("b-sets", sq.UnitOfWork(size=2), group="customer", sequence="version"),
        sq.Queue("c-fifo", sq.Fifo(), group="customer", attempts=1),
        sq.Queue("d-types", sq.Fifo(), group="customer", level="type", attempts=1),
        sq.Queue("e-unordered", sq.Unordered()),
        sq.Queue("f-empty", sq.Fifo(), group="customer"),
        *(sq.Subscription(queue, where=f"type = 'order' AND queue = '{queue}'", to=queue) for queue in QUEUES),
    )
    for queue in QUEUES[:5]:
        box.publish(messages(queue, *((key, chance.choice((1, 1, 2))) for key in KEYS if chance.random() < 0.8)))
    for queue in QUEUES[:4]:
        with box.session() as tx:
            found = box.definitions().queue(queue)
            turns = Turns(tx.transaction)
            turns.judge_all(found, turns.lock(found, 20))  # about half of them
    for view in groups.groups(box):
        doing = chance.random()
        if doing < 0.1 and view.queue in ("a-standard", "c-fifo") and view.state is GroupState.READY:
            fails(box, view.queue, view.group)
        elif doing < 0.3:
            groups.suspend(box, view.queue, view.group, **BY)
        elif doing < 0.4:
            groups.close(box, view.queue, view.group, **BY)


q = box_with(with_groups, scope="module")


def with_many(box):
    """Two queues that differ in nothing but how many groups they have, of which each hundredth waits for a number."""
    box.define(TYPE)
    for queue, many in (("small", LARGE // 10), ("large", LARGE)):
        box.define(
            sq.Queue(queue, NUMBER, group="customer", sequence="version"),
            sq.Subscription(queue, where=f"type = 'order' AND queue = '{queue}'", to=queue),
        )
        box.publish(messages(queue, *((f"g{n:05}", 1 + (n % 5 == 0)) for n in range(many))))
        with box.session() as tx:
            found = box.definitions().queue(queue)
            turns = Turns(tx.transaction)
            turns.judge_all(found, turns.lock(found, many - 100))  # the last hundred, by key, stay as they came


many = box_with(with_many, scope="module")


def facts(box):
    """The groups by the view of the schema: queue, key, state."""
    return roles.rows(box, 'SELECT queue, group_key, state FROM box.groups ORDER BY queue, group_key COLLATE "C"')


def pages(box, chosen, size):
    found, after = [], None
    with box.session() as tx:
        while page := groups_of(tx.transaction, replace(chosen, after=after, limit=size)):
            found += page
            after = (page[-1].queue, page[-1].group)
            if len(page) < size:
                break
    return [(view.queue, view.group, str(view.state)) for view in found]


@pytest.fixture(scope="module")
def there(q):
    return facts(q)


def test_the_box_has_groups_in_every_state(q, there):
    found = there
    assert {state for _, _, state in found} == {"ready", "closed", "suspended", "faulted", "waiting"}
    assert pages(q, GroupFilter(), 1_000) == found
    never_judged = roles.rows(
        q, "SELECT count(DISTINCT (queue_id, group_key)) FROM box.entries WHERE status = 'arrived'"
    )
    assert never_judged[0][0] > 20


PATTERNS = st.one_of(
    st.none(),
    st.sampled_from(["*", "a*", "ab?", "a%*", "é*", "\ud7ff*", "\U0010ffff*", "*1", "?", "a1", "nothing*", "a[*"]),
)
STATES = st.one_of(st.none(), st.frozensets(st.sampled_from(sorted(GroupState)), min_size=1))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    queue=st.one_of(st.none(), st.sampled_from(QUEUES)),
    pattern=PATTERNS,
    states=STATES,
    size=st.sampled_from([1, 3, 7, 50]),
)
def test_pages_are_all_groups_that_fit(q, there, queue, pattern, states, size):
    wanted = [
        row for row in there
        if queue in (None, row[0])
        and (pattern is None or fnmatchcase(row[1], pattern.replace("[", "[[]")))
        and (states is None or row[2] in states)
    ]  # fmt: skip
    assert pages(q, GroupFilter(queue, key=pattern, state=states), size) == wanted


def test_a_suspension_that_is_only_asked_for_is_among_the_stopped(q):
    queue, group = "c-fifo", "new"
    q.publish(messages(queue, (group, 1)))
    with q.session() as tx:
        assert len(list(tx.receive(queue, group=group))) == 1
        assert groups.suspend(q, queue, group, **BY).obeyed is False
        found = pages(q, GroupFilter(queue, key="new", state=STOPPED), 50)
    assert found == [(queue, group, "suspended")]


def read(box, look):
    """How many rows and entries of indexes of groups and messages a look reads."""
    with box.session() as tx:
        look(tx.transaction)  # what is read once, of definitions and of the catalogue, is not counted
        before = read_so_far(tx.connection, box.schema)
        assert look(tx.transaction) is not None
        return read_so_far(tx.connection, box.schema) - before


def read_so_far(connection, schema):
    tables = "entries", "known_groups", "leases", "requests", "operator_log", "faults", "spool", "queues"
    rows = connection.execute(
        """
        SELECT sum(pg_stat_get_xact_tuples_returned(one.oid) + pg_stat_get_xact_tuples_fetched(one.oid))::bigint
        FROM pg_class AS one LEFT JOIN pg_index AS its ON its.indexrelid = one.oid
        JOIN pg_class AS known ON known.oid = coalesce(its.indrelid, one.oid)
        WHERE known.relnamespace = %s::regnamespace AND known.relname = ANY (%s)
        """,
        [schema, list(tables)],
    )
    return rows.fetchone()[0]


LOOKS = {
    "the stopped groups": (GroupFilter("{queue}", state=STOPPED), None),
    "after a group": (GroupFilter("{queue}", state=STOPPED), ("{queue}", "g00020")),
    "waiting groups": (GroupFilter("{queue}", state=GroupState.WAITING), None),
    "all groups": (GroupFilter("{queue}"), None),
    "all groups after a group": (GroupFilter("{queue}"), ("{queue}", "g00020")),
    "a pattern with a beginning": (GroupFilter("{queue}", key="g0002*"), None),
    "faulted groups, of which there is none": (GroupFilter("{queue}", state=GroupState.FAULTED), None),
}


def look_at(queue, name):
    chosen, after = LOOKS[name]
    chosen = replace(chosen, queue=queue, after=None if after is None else (queue, after[1]), limit=PAGE)
    return lambda transaction: groups_of(transaction, chosen)


@pytest.mark.parametrize("name", LOOKS)
def test_a_page_reads_what_is_on_it_however_many_groups_there_are(many, name):
    """Of 3,000 groups; a group has a row and a message, each with its index, and its key was found in an index before."""
    assert read(many, look_at("large", name)) <= 10 * PAGE


def test_a_page_of_a_role_reads_what_the_owners_reads(many):
    roles.make(many, "page_reader")
    many.grant("page_reader", see=["small", "large"])
    with roles.as_role(many, "page_reader") as own:
        for name in LOOKS:
            assert read(own, look_at("large", name)) <= 11 * PAGE, name


def test_few_groups_among_many_are_found_in_a_few_statements(many):
    """The next statement reads four times as many; each group is read once."""
    names = []
    with many.session() as tx:
        rows = tx.transaction.rows

        class Counted:
            def rows(self, name, *arguments, **parameters):
                names.append(parameters["most"])
                return rows(name, *arguments, **parameters)

        found = groups_of(Counted(), GroupFilter("large", state=GroupState.CLOSED, limit=PAGE))
    assert found == []
    assert names == [50, 200, 800, 3200]
