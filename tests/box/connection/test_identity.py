"""Who a box is: an id, and the server that it remembers. A copy of its database is disabled until somebody says what it is."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.pipelines.staging import Staging
from seriatim.box.views import operations_done
from seriatim.box.views.operations_done import LogFilter
from seriatim.operations import dead_letters, doctor, events, groups, identity, messages, queues, retention
from seriatim.operations.box_status import box_status
from seriatim.operations.events import events_after
from seriatim.operations.grants import grant
from seriatim.runtime.serve import Serve
from seriatim.runtime.supervisor import Supervisor
from tests.command import environment
from tests.databases import SCHEMA, box_with

HOW = "if it was moved here, or the server upgraded: seriatim box enable; if this is a copy: seriatim box new-id"
BY = {"actor": "ann", "reason": "ticket 4711"}


def shop(box):
    """A shop, with a message in each queue and a dialog of which two messages wait for a service that isn't there."""
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("fifo", policy=sq.Fifo(), group="customer"),
        sq.Queue("loose", policy=sq.Unordered()),
        sq.Subscription("both", where="type = 'order'", to="fifo"),
        sq.Subscription("too", where="type = 'order'", to="loose"),
        sq.Contract("Ask", {"Question": "any"}),
        sq.Service("Shop", queue="talks", contracts=["Ask"]),
    )
    box.publish(order("c1"))
    with box.session() as tx:
        handle = tx.begin_dialog("Shop", "Elsewhere", contract="Ask")
        for body in (b"1", b"2"):
            tx.send(handle, "Question", body)


def order(customer):
    return sq.Message(type="order", context={"customer": customer})


shop_box = box_with(shop)


@contextmanager
def copied(databases, box):
    """The DSN of a copy of the box's database."""
    box.close()  # nobody may be connected to a database that is a template
    with databases.clone(conninfo_to_dict(box.dsn)["dbname"]) as dsn:
        yield dsn


@pytest.fixture
def copy(databases, shop_box):
    """A copy of the shop, and the id of the original."""
    original = shop_box.id
    with copied(databases, shop_box) as dsn, sq.MessageBox.open(dsn, schema=SCHEMA) as opened:
        assert opened.id == original
        yield opened


def open_again(box):
    return sq.MessageBox.open(box.dsn, schema=SCHEMA)


def received(box, queue):
    with box.session() as tx:
        return tx.receive(queue)


def dispensed(box):
    with box.session() as tx:
        return tx.dispense("till")


def begun(box):
    with box.session() as tx:
        return tx.begin_dialog("Shop", "Shop", contract="Ask")


USES = {
    "publish": lambda box: box.publish(order("c2")),
    "receive": lambda box: received(box, "fifo"),
    "receive unordered": lambda box: received(box, "loose"),
    "dispense": dispensed,
    "dialog": begun,
    "define": lambda box: box.define(sq.Queue("more", policy=sq.Unordered())),
    "drop": lambda box: box.drop(subscription="too"),
    "tick": sq.MessageBox.tick,
    "worker": lambda box: sq.Worker(box, "fifo", print).run(until_idle=True),
    "processes": lambda box: Supervisor(box, ["fifo"], "builtins:print", until_idle=True).run(),
    "serve": lambda box: Serve(box).run(),
    "read by Spark": lambda box: PipelineFeed(box.dsn, SCHEMA, queue="fifo").close(),
    "written by Spark": lambda box: Staging(box.dsn, SCHEMA, queue="fifo").close(),
    "an operator": lambda box: groups.suspend(box, "fifo", "c1", **BY),
}


def test_a_copy_of_the_database_is_disabled(copy):
    for name, use in USES.items():
        with pytest.raises(sq.BoxDisabled, match="the message box is disabled: it remembers the database") as caught:
            print(name, use(copy))  # noqa: T201 -- which one it was
        assert SCHEMA in caught.value.where
        assert caught.value.remedy == HOW
    # One error in Python and in SQL, for a connection of the application's and for a statement of its own.
    with psycopg.connect(copy.dsn) as connection:
        with pytest.raises(sq.BoxDisabled), copy.session(connection) as tx:
            tx.publish(order("c2"))
        connection.rollback()
        for call in ("publish('order', '')", "take_numbers('till', 1)", "end_dialog(gen_random_uuid())", "transmit()"):
            with pytest.raises(psycopg.Error, match="the message box is disabled") as raised:
                print(call, connection.execute(f"SELECT {SCHEMA}.{call}"))  # noqa: T201 -- likewise
            assert (raised.value.sqlstate, raised.value.diag.message_hint) == ("SQ003", HOW)
            connection.rollback()


def test_a_disabled_box_can_be_read(copy):
    assert [one.queue for one in queues.queues(copy)] == ["fifo", "loose", "talks"]
    assert len(copy.peek("fifo")) == len(messages.messages(copy, queue="fifo")) == 1
    assert [one.group for one in groups.groups(copy)] == ["c1"]
    assert dead_letters.dead_letters(copy) == events_after(copy) == events.events(copy) == []
    assert copy.definitions().queues.keys() == {"fifo", "loose", "talks"}
    assert box_status(copy).version
    assert retention.purgeable(copy).messages == 0
    found = {one.name: one for one in doctor.findings_at(copy.dsn, SCHEMA)}
    assert found["identity"].state == "wrong"
    assert "it remembers the database with the oid" in found["identity"].found
    assert "seriatim box enable, which keeps its id" in found["identity"].remedy
    assert "seriatim box new-id, which gives it an id of its own" in found["identity"].remedy
    assert {name for name, one in found.items() if one.state == "wrong"} <= {"identity", "at work"}


def test_a_copy_gets_a_new_id(copy):
    original = copy.id
    would = identity.new_id_would(copy)
    assert (would.id, would.former_id, would.messages, would.dialogs) == (None, original, 2, 1)
    with pytest.raises(sq.BoxDisabled):
        copy.publish(order("c2"))
    done = identity.new_id(copy, **BY)
    assert (done.former_id, done.messages, done.dialogs) == (original, 2, 1)
    assert copy.id == done.id != original
    assert copy.incarnation == 1
    copy.publish(order("c2"))  # on the connection that was refused before
    assert len(received(copy, "fifo")) == 1
    # What the original sends isn't sent from here, and the application hears why its dialog ended.
    with copy.session() as tx:
        (error,) = tx.receive("talks")
        assert (error.type, b"is a copy" in error.body, b'"code": -3' in error.body) == ("Error", True, True)
        tx.delivery.done()
    (entry,) = logged(copy)
    assert (entry.action, entry.actor, entry.reason) == ("new box id", "ann", "ticket 4711")
    assert entry.details["box"] == str(copy.id)
    assert (entry.details["former"], entry.details["messages"], entry.details["dialogs"]) == (str(original), 2, 1)
    assert entry.details["database_oid"][0] != entry.details["database_oid"][1]


def test_the_original_that_was_moved_keeps_its_id(copy):
    original = copy.id
    assert identity.enable(copy, **BY)
    assert (copy.id, copy.incarnation) == (original, 2)
    assert not identity.enable(copy, **BY)
    assert copy.incarnation == 2
    assert len(received(copy, "fifo")) == 1
    assert [one.action for one in logged(copy)] == ["enable box"]
    with copy.session() as tx:  # what waits to be delivered waits on
        assert tx.receive("talks") is None
    assert identity.new_id_would(copy).messages == 2


def logged(box):
    with box.access.transaction() as transaction:
        return operations_done.logged(transaction, LogFilter(limit=10))


def test_what_others_have_open_goes_on_when_it_is_enabled(copy):
    with open_again(copy) as other:
        with pytest.raises(sq.BoxDisabled):
            other.publish(order("c2"))
        identity.enable(copy, **BY)
        other.publish(order("c2"))


def test_a_role_is_refused_by_sql_and_reads_who_the_box_is(copy):
    identity.enable(copy, **BY)
    with copy.session() as tx:
        tx.connection.execute("CREATE ROLE picker LOGIN")
    grant(copy, "picker", publish=["fifo", "loose"], receive=["fifo"], see=["fifo"])
    with copy.session() as tx:
        tx.connection.execute(f"UPDATE {SCHEMA}.box_identity SET database_oid = 1")
    dsn = copy.dsn.replace("seriatim@", "picker@")
    with sq.MessageBox.open(dsn, schema=SCHEMA) as limited:
        assert limited.id == copy.id
        for use in (lambda box: box.publish(order("c2")), lambda box: received(box, "fifo")):
            with pytest.raises(sq.BoxDisabled):
                use(limited)
        assert len(messages.messages(limited, queue="fifo")) == 1
        assert identity.identity(limited) == identity.identity(copy)
        for change in (identity.enable, identity.new_id):
            with pytest.raises(sq.EnvironmentProblem, match="permission denied"):
                change(limited, **BY)
        with pytest.raises(sq.EnvironmentProblem, match="permission denied"):
            identity.forget(limited)
    with psycopg.connect(dsn) as connection:
        call = f"SELECT {SCHEMA}.publish('order', '', context => '{{\"customer\": \"c3\"}}')"
        with pytest.raises(psycopg.Error, match="the message box is disabled"):
            connection.execute(call)
        connection.rollback()
        identity.enable(copy, **BY)
        connection.execute(call)  # the session that was refused is let in
    assert identity.identity(copy).id == copy.id


def test_each_database_of_a_template_has_a_box_of_its_own(box, databases):
    with databases.clone(databases.template("box", print)) as dsn, sq.MessageBox.open(dsn, schema=SCHEMA) as other:
        assert isinstance(other.id, UUID)
        assert other.id != box.id
        assert (other.incarnation, box.incarnation) == (1, 1)
        other.tick()
    found = identity.identity(box)
    assert (found.id, found.incarnation, found.enabled, found.is_standby, found.unknown) == (box.id, 1, True, False, ())
    assert found.timeline == found.timeline_here >= 1
    assert found.database_oid == found.database_oid_here


_OPEN = """
import sys
import seriatim as sq
sys.stdin.readline()
with sq.MessageBox.open(sys.argv[1], schema=sys.argv[2]) as box:
    print(box.id, box.incarnation)
"""


def test_processes_that_open_it_at_once_see_one_id(box):
    identity.forget(box)
    words = [sys.executable, "-c", _OPEN, box.dsn, SCHEMA]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment()}
    opening = [subprocess.Popen(words, **pipes) for _ in range(2)]
    for one in opening:
        one.stdin.write("\n")
        one.stdin.flush()
    found = {one.communicate()[0].strip() for one in opening}
    assert len(found) == 1
    with open_again(box) as again:
        assert found == {f"{again.id} 1"}


def test_who_opens_it_waits_for_the_first_one(box):
    """The second of two that have found no id gets the id of the first one, which hadn't committed."""
    identity.forget(box)
    seen = []
    with psycopg.connect(box.dsn) as first:
        given = first.execute(f"SELECT box_id FROM {SCHEMA}.look_at_identity()").fetchone()[0]
        second = threading.Thread(target=lambda: seen.append(opened_id(box)))
        second.start()
        with psycopg.connect(box.dsn, autocommit=True) as looking:
            waits = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            while looking.execute(waits).fetchone() == (0,):
                assert second.is_alive()
        first.commit()
        second.join()
    assert seen == [given]


def opened_id(box):
    with open_again(box) as again:
        return again.id


def test_another_timeline_is_a_new_incarnation(box):
    """As after a promotion, or a recovery to a point in time; `tests/box/server/test_moved.py` has a real one."""
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {SCHEMA}.box_identity SET timeline = timeline + 100")
    with open_again(box) as again:
        assert (again.id, again.incarnation) == (box.id, 2)
        again.tick()
        (entry,) = logged(again)
        assert (entry.actor, entry.action) == ("seriatim", "new incarnation")
        assert entry.details["incarnation"] == 2
        with open_again(box) as third:
            assert third.incarnation == 2
        assert len(logged(again)) == 1


def test_no_process_routes_by_definitions_that_a_new_incarnation_lacks(box):
    """The standby that was promoted lacks the last change; the next one gets another version."""
    queues = [sq.Queue(name, policy=sq.Unordered()) for name in ("kept", "lost")]
    box.define(*queues, sq.Subscription("kept", where="TRUE", to="kept"))
    with open_again(box) as process:
        with box.session() as tx:
            ((kept,),) = tx.connection.execute(f"SELECT max(version) FROM {SCHEMA}.changes").fetchall()
        box.define(sq.Subscription("lost", where="TRUE", to="lost"))
        process.publish(sq.Message(type="order", message_id="before"))
        with box.session() as tx:
            tx.connection.execute(f"DELETE FROM {SCHEMA}.changes WHERE version > %s", [kept])
            tx.connection.execute(f"DELETE FROM {SCHEMA}.known_subscriptions WHERE subscription = 'lost'")
            tx.connection.execute(f"UPDATE {SCHEMA}.box_identity SET timeline = timeline + 100")
        with open_again(box) as other:
            other.define(sq.Subscription("more", where="type = 'other'", to="kept"))
        process.publish(sq.Message(type="order", message_id="after"))
    assert [one.message.message_id for one in box.peek("kept")] == ["before", "after"]
    assert [one.message.message_id for one in box.peek("lost")] == ["before"]


def test_an_owner_who_may_not_ask_which_server_it_is(box):
    """The box works with what can be asked, and says what can't be; what it hears later it remembers from then on."""
    asked = ("pg_control_system()", "pg_walfile_name(pg_lsn)", "pg_current_wal_lsn()")
    with box.session() as tx:
        for one in asked:
            tx.connection.execute(f"REVOKE EXECUTE ON FUNCTION pg_catalog.{one} FROM PUBLIC")
        tx.connection.execute("CREATE ROLE plain LOGIN")
        tx.connection.execute(
            "DO $$BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO plain', current_database()); END$$"
        )
    dsn = box.dsn.replace("seriatim@", "plain@")
    with sq.MessageBox.open(dsn, schema="own") as own:
        own.define(sq.Queue("q", policy=sq.Unordered()), sq.Subscription("s", where="TRUE", to="q"))
        own.publish(sq.Message(type="order"))
        with psycopg.connect(dsn) as connection, own.session(connection) as tx:
            tx.publish(sq.Message(type="order"))
        found = identity.identity(own)
        assert found.enabled
        assert found.unknown == ("the system identifier", "the timeline")
        assert (found.system_identifier, found.timeline) == (None, None)
        (told,) = [one for one in doctor.findings_at(dsn, "own") if one.name == "identity"]
        assert told.found.endswith("not known: the system identifier and the timeline")
    with box.session() as tx:
        for one in asked:
            tx.connection.execute(f"GRANT EXECUTE ON FUNCTION pg_catalog.{one} TO PUBLIC")
    with sq.MessageBox.open(dsn, schema="own") as own:
        found = identity.identity(own)
        assert (found.incarnation, found.unknown) == (1, ())
        assert found.system_identifier == found.system_identifier_here
        assert found.timeline == found.timeline_here
