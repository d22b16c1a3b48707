"""Boxes that earlier builds have made, with rows in every table, are brought up to date: nothing is lost, all of it works."""

from __future__ import annotations

import lzma
from contextlib import ExitStack, contextmanager

import psycopg
import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging
from seriatim.box.postgres.migrate import migrations
from seriatim.operations import identity, invariants, queues, retention
from seriatim.operations.grants import grants
from tests.box.schema_text import schema_text
from tests.upgrade.dump import DUMPS, noted, present
from tests.upgrade.filled import DEFINED, ROLES, SCHEMA, empty_tables, filled, make_roles

NEWEST = migrations()[-1].number
VERSIONS = sorted(int(path.name.split(".")[0]) for path in DUMPS.glob("*.sql.xz"))


@pytest.fixture
def database(databases):
    """Makes databases; `database(version)` has the box of a dump, `database()` nothing."""
    with ExitStack() as made:
        yield lambda version=None: made.enter_context(restored(databases, version))


@contextmanager
def restored(databases, version):
    with databases.clone() as dsn:
        if version is not None:
            with psycopg.connect(dsn) as connection:
                make_roles(connection)  # they belong to the server, and no dump has them
                connection.execute(lzma.decompress((DUMPS / f"{version:04}.sql.xz").read_bytes()))
        yield dsn


def query(dsn, text, *arguments):
    with psycopg.connect(dsn) as connection:
        cursor = connection.execute(text, arguments or None)
        return cursor.fetchall() if cursor.description else []


def in_queues(dsn):
    """How many messages are in queues, or wait to be routed there."""
    count = f"SELECT (SELECT count(*) FROM {SCHEMA}.entries) + (SELECT count(*) FROM {SCHEMA}.to_route)"
    return query(dsn, count)[0][0]


def received(box, *names):
    """All that leaves: by queue and group the bodies, in order."""
    found = {}
    elsewhere = {name for (name,) in query(box.dsn, REMOTE + REGIONAL)} if not names else set()
    here = [one.queue for one in queues.queues(box) if one.enabled and one.owner is None]
    for queue in names or [one for one in here if one not in elsewhere]:
        while True:
            with box.session() as tx:
                if (delivery := tx.receive(queue, limit=100)) is None:
                    break
                found.setdefault((queue, delivery.group), []).extend(one.body for one in delivery)
    return found


def order(queue, customer, version, body):
    return sq.Message(type="order", body=body, context={"to": queue, "customer": customer, "version": version})


#: The queues of other boxes, from which nothing is received here.
REMOTE = f"SELECT definition ->> 'name' FROM {SCHEMA}.queues WHERE definition ->> 'at' IS NOT NULL"
#: Those of two regions, whose journal says who works on a message.
REGIONAL = (
    f" UNION SELECT known.queue FROM {SCHEMA}.queues AS known JOIN {SCHEMA}.region_queues AS regional USING (queue_id)"
)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_box_with_rows_in_every_table_is_brought_up_to_date(databases, version):
    with restored(databases, version) as dsn, restored(databases, None) as fresh:
        brought_up_to_date(dsn, fresh, version)


def brought_up_to_date(dsn, fresh, version):
    assert empty_tables(dsn) == []
    before = in_queues(dsn)
    if version < NEWEST:
        with pytest.raises(sq.SchemaMismatch, match=f"has version {version}") as caught:
            sq.MessageBox.open(dsn)
        assert caught.value.remedy == "seriatim box migrate"
    assert sq.MessageBox.migrate(dsn) == [one for one in migrations() if one.number > version]
    assert sq.MessageBox.migrate(dsn) == []
    sq.MessageBox.open(fresh).close()
    assert schema_text(dsn) == schema_text(fresh)
    for marks in (
        "number, name, checksum FROM {}.migrations",
        "checksum, names FROM {}.function_sets ORDER BY set_id DESC LIMIT 1",
    ):
        assert query(dsn, f"SELECT {marks.format(SCHEMA)}") == query(fresh, f"SELECT {marks.format(SCHEMA)}")
    rules = f"SELECT * FROM {SCHEMA}.dialog_rules ORDER BY verb, state"
    assert query(dsn, rules) == query(fresh, rules)
    with sq.MessageBox.open(dsn) as box:
        identity.enable(box, actor="ann", reason="it was moved")
        assert box.id is not None
        assert invariants.broken(box) == invariants.silent_triggers(box) == []
        assert {change.what for change in box.define(*DEFINED)} <= {"added"}
        assert {one.role for one in grants(box)} == set(ROLES)
        box.tick()
        assert invariants.never_numbered(box) == []
        found = received(box)
        assert sum(map(len, found.values())) + in_queues(dsn) == before
        for bodies in found.values():
            numbers = [int(body) for body in bodies if body.isdigit()]
            assert numbers == sorted(set(numbers))
        assert len(found["standard", "whole"]) == 3
        assert ("idle", "not numbered") in found
        # What is published now goes on where it was.
        box.publish([order("standard", "hole", n, b"%d" % n) for n in (4, 3)])
        box.publish(order("standard", "first missing", 1, b"1"))
        assert {group: len(bodies) for (_, group), bodies in received(box, "standard").items()} == {
            "hole": 4, "first missing": 3
        }  # fmt: skip
        queues.release(box, "piped")
        assert len(received(box, "piped")["piped", "a"]) == 4
        queues.turn_on(box, "off")
        assert len(received(box, "off")["off", "a"]) == 2
        rows = pa.RecordBatch.from_pydict({"type": ["order"], "customer": ["piped in"], "body": [b"x"]})
        with Staging(dsn, SCHEMA, queue="fifo", incoming=Incoming("order")) as staging:
            assert [staging.merge("writer", n, [staging.stage("writer", n, [rows])]) for n in (0, 1)] == [0, 1]
        with sq.MessageBox.open(dsn.replace("seriatim@", f"{ROLES[0]}@")) as limited:
            limited.publish(order("fifo", "by a role", 1, b"y"))
        assert received(box, "fifo") == {("fifo", "piped in"): [b"x"], ("fifo", "by a role"): [b"y"]}
        retention.purge(box)
        assert invariants.broken(box) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_waits_keeps_its_order(database, version):
    """A transaction of a box before version 91 went by the names of its locations, and may have been handed out in part."""
    dsn = database(version)
    publish = f"SELECT {SCHEMA}.publish('order', %s, %s, location => %s)"
    query(dsn, f"SELECT FROM {SCHEMA}.live_here(NULL)")
    with psycopg.connect(dsn) as connection:
        for nth in range(6):
            context = psycopg.types.json.Jsonb({"to": "fifo", "customer": "of before"})
            connection.execute(publish, [b"%d" % nth, context, ("web", "shop")[nth % 2]])
    sq.MessageBox.migrate(dsn)
    with sq.MessageBox.open(dsn) as box:
        with box.session() as tx:
            for nth in range(6, 12):
                context = {"to": "fifo", "customer": "of before", "location": ("web", "shop")[nth % 2]}
                tx.publish(sq.Message(type="order", body=b"%d" % nth, context=context))
        bodies = received(box, "fifo")["fifo", "of before"]
    before = [1, 3, 5, 0, 2, 4] if int(version) < 91 else [*range(6)]
    assert [int(body) for body in bodies] == [*before, *range(6, 12)]


def test_no_table_is_left_out(database):
    """What is added to a box is filled, too, before a dump is made of it."""
    dsn = database()
    with filled(dsn):
        # Attachments are in it while a merge takes repeated messages apart, and no longer.
        assert empty_tables(dsn) == ["staged_message_parts"]


def test_no_migration_is_edited():
    """Those of a stored state are on somebody's server: a change is a new file behind them."""
    assert {name: present().get(name) for name in noted()} == noted()
