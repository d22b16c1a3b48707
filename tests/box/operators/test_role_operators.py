"""The rights of operators: a role that sees a queue, one that sees bodies too, and one that mends, each by its own DSN."""

from __future__ import annotations

import re
from importlib import resources

import psycopg
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.postgres.statements import SEEN, right_of_look
from seriatim.box.postgres.template import template
from seriatim.cli.main import main
from seriatim.operations import bulk_operations, dead_letters, events, faults, find, groups, messages, queues, trace
from seriatim.operations.events import events_after
from seriatim.operations.grants import grant, grants
from seriatim.operations.groups import Action
from tests.box.roles import CATALOGUE, as_role, dsn_of, in_sql, make, rows
from tests.databases import box_with
from tests.runtime.workers.test_worker import work

pytestmark = pytest.mark.dear

SECRET = "T0PS3CRET"
#: Looks that read more than what operators see.
OWNERS = {"audit_references", "audit_released", "dialogs", "grants", "never_numbered", "purgeable", "reader_of"}
OWNERS |= {"remembered_sessions", "times_ahead", "unended_dialogs", "unended_turns", "tokens", "box_regions"}
RIGHTS = {"watcher": {"see": ["shop"]}, "reader": {"see_bodies": ["shop"]}, "mender": {"operate": ["shop"]}}


def prepare(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "note": "string"}),
        sq.Queue("shop", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("vault", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Subscription("shop", where="customer LIKE 'c%'", to="shop"),
        sq.Subscription("vault", where="customer LIKE 'v%'", to="vault"),
    )
    box.publish([order(customer, n) for customer in ("c1", "v1") for n in (1, 2, 4)])


def order(customer, version):
    context = {"customer": customer, "version": version, "note": f"{SECRET} note"}
    return sq.Message(
        type="order", message_id=f"{customer}-{version}", body=f"{SECRET} of {customer}".encode(), context=context
    )


defined = box_with(prepare)


@pytest.fixture
def box(defined):
    make(defined, *RIGHTS, "stranger")
    for role, rights in RIGHTS.items():
        grant(defined, role, **rights)
    grant(defined, "stranger", publish=["shop"])
    return defined


@pytest.mark.parametrize("role", RIGHTS)
def test_a_role_looks_at_its_queue_and_at_no_other(box, role):
    groups.suspend(box, "shop", "c1", actor="ann", reason="stop")
    with as_role(box, role) as own:
        assert [one.queue for one in queues.queues(own)] == ["shop"]
        assert [(one.queue, one.group) for one in groups.groups(own)] == [("shop", "c1")]
        assert groups.standing(own, "shop", "c1").operations[0].actor == "ann"
        assert {one.message_id for one in messages.messages(own)} == {"c1-1", "c1-2", "c1-4"}
        assert {one.message_id for one in find.find(own, "c1").messages} == {"c1-1", "c1-2", "c1-4"}
        assert find.find(own, "v1").messages == find.find(own, "v1").groups == ()
        assert {one.message_id for one in trace.trace_message(own, "c1-1")} >= {"c1-1"}
        assert faults.faults(own, queue="shop") == dead_letters.dead_letters(own, queue="shop") == []
        looks = (
            lambda: groups.groups(own, "vault"),
            lambda: groups.standing(own, "vault", "v1"),
            lambda: messages.messages(own, queue="vault"),
            lambda: faults.faults(own, queue="vault"),
            lambda: dead_letters.dead_letters(own, queue="vault"),
            lambda: own.peek("vault"),
        )
        for look in looks:
            with pytest.raises(sq.EnvironmentProblem, match=f'"{role}" may not see .*the queue "vault"') as caught:
                look()
            assert 'the owner of the message box, "seriatim", can grant it' in caught.value.remedy
            assert f"seriatim box grant {role} --see" in caught.value.remedy
        with pytest.raises(sq.UsageError, match="no message"):
            messages.message(own, "v1-1") if role == "reader" else trace.trace_message(own, "v1-1")


def test_a_role_that_sees_a_queue_sees_its_events(box):
    given = {"actor": "ann", "reason": "lost"}
    groups.skip_hole(box, "shop", "c1", **given)
    groups.skip_hole(box, "vault", "v1", **given)
    with as_role(box, "mender") as own:
        groups.suspend(own, "shop", "c1", **given)
        assert [(one.group, one.kind) for one in events_after(own)] == [("c1", "hole_skipped"), ("c1", "suspended")]
    for role in RIGHTS:
        with as_role(box, role) as own:
            assert {one.by for one in events_after(own, queue="shop")} == {"ann: lost"}
            assert [one.kind for one in events.events(own)] == ["suspended", "hole_skipped"]
            for look in (lambda: events_after(own, queue="vault"), lambda: events.events(own, "vault")):
                with pytest.raises(sq.EnvironmentProblem, match=f'"{role}" may not see the queue "vault"'):
                    look()
    with as_role(box, "stranger") as own, pytest.raises(sq.EnvironmentProblem, match='"stranger" may not see'):
        events_after(own)
    assert [one.group for one in events_after(box)] == ["c1", "v1", "c1"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        in_sql(
            box,
            "watcher",
            "SELECT box.record_events(queue_id, '{c1}', '{closed}', '{NULL}', '{NULL}', '{1}', '{0}', NULL)"
            " FROM box.seen_queues",
        )


def test_bodies_are_seen_with_a_right_of_their_own(box):
    for role in ("watcher", "mender"):
        with as_role(box, role) as own:
            for look in (lambda: messages.message(own, "c1-1"), lambda: own.peek("shop")):
                with pytest.raises(sq.EnvironmentProblem, match=f'"{role}" may not see bodies of') as caught:
                    look()
                assert f"seriatim box grant {role} --see-bodies" in caught.value.remedy
            for view in SEEN:
                assert SECRET not in str(in_sql(box, role, f"SELECT * FROM box.seen_{view}")), view
    with as_role(box, "reader") as own:
        assert messages.message(own, "c1-1")[0].body == f"{SECRET} of c1".encode()
        assert own.peek("shop")[0].message.context["note"] == f"{SECRET} note"
    assert "v1" not in str([in_sql(box, "reader", f"SELECT * FROM box.seen_{view}") for view in SEEN])
    # Of two queues, in one of which it sees bodies.
    grant(box, "reader", see=["vault"])
    with as_role(box, "reader") as own, pytest.raises(sq.EnvironmentProblem, match="may not see bodies"):
        messages.message(own, "v1-1")


def test_an_operator_mends_a_group_and_the_log_says_who_it_was(box):
    with as_role(box, "mender") as own:
        given = {"actor": "somebody else", "reason": "to look"}
        groups.suspend(own, "shop", "c1", **given)
        groups.resume(own, "shop", "c1", **given)
        assert groups.skip_hole(own, "shop", "c1", **given).released == 1
        groups.abort(own, "shop", "c1", **given)
        for action in (groups.suspend, groups.skip_hole, groups.abort):
            with pytest.raises(sq.EnvironmentProblem, match=r'"mender" may not .* the queue "vault"'):
                action(own, "vault", "v1", **given)
        with pytest.raises(sq.EnvironmentProblem, match="may not receive from"), own.session() as tx:
            tx.receive("shop")
    logged = rows(box, "SELECT actor, role, action FROM box.operator_log ORDER BY operation_id")
    actions = ["suspend", "resume", "skip_hole", "abort"]
    assert logged == [("somebody else", "mender", action) for action in actions]
    for role in ("watcher", "reader", "stranger"):
        with as_role(box, role) as own, pytest.raises(sq.EnvironmentProblem, match="may not") as caught:
            groups.suspend(own, "shop", "c1", **given)
        assert f"seriatim box grant {role} --operate " in caught.value.remedy


def test_an_operator_retries_and_edits_only_what_it_sees(box):
    work(box, fail, done=lambda: is_faulted(box))
    given = {"actor": "bo", "reason": "mended"}
    with as_role(box, "mender") as own:
        with pytest.raises(sq.EnvironmentProblem, match='may not see bodies of the queue "shop"'):
            groups.retry(own, "shop", "c1", body=b"new", **given)
        assert groups.group_view(own, "shop", "c1").state == "faulted"
        grant(box, "mender", see_bodies=["shop"])
        assert groups.retry(own, "shop", "c1", body=b"new", **given).before == "faulted"
        assert own.peek("shop")[0].message.body == b"new"
    work(box, fail, done=lambda: is_faulted(box))
    with as_role(box, "mender") as own:
        assert groups.skip_message(own, "shop", "c1", **given).set_aside == 1
        (letter,) = dead_letters.dead_letters(own)
        assert letter.message_id == "c1-1"
        assert dead_letters.requeue(own, letter.entry_id, **given).letter == letter
        groups.skip_hole(own, "shop", "c1", **given)
        groups.abort(own, "shop", "c1", **given)
        assert groups.forget(own, "shop", "c1", **given) == 1
    logged = rows(box, "SELECT DISTINCT role FROM box.operator_log WHERE actor = 'bo'")
    assert logged == [("mender",)]
    with as_role(box, "watcher") as own:
        with pytest.raises(sq.EnvironmentProblem, match='may not operate on the queue "shop"'):
            dead_letters.requeue(own, dead_letters.dead_letters(own)[0].entry_id, **given)
        with pytest.raises(sq.EnvironmentProblem, match='may not operate on the queue "shop"'):
            groups.forget(own, "shop", "c1", **given)


def fail(message, tx):
    raise sq.Business("no stock")


def is_faulted(box):
    return groups.group_view(box, "shop", "c1").state == "faulted"


def test_each_table_that_looks_read_has_a_view():
    """But for looks that are the owner's: at laws, roles, dialogs, clean-up and pipelines."""
    rooms = resources.files("seriatim.box.postgres").joinpath("sql").iterdir()
    files = {
        file.name.removesuffix(".sql"): f"sql/{room.name}/{file.name}" for room in rooms for file in room.iterdir()
    }
    read = {
        name: set(re.findall(r"\{schema\}\.(\w+)\b(?!\()", template("seriatim.box.postgres", file)))
        for name, file in files.items()
        if right_of_look(name)
    }
    unseen = {name for name, tables in read.items() if not tables <= set(SEEN)}
    assert len(read) > 30
    assert unseen == OWNERS


def test_no_operator_reads_a_table(box):
    relations = rows(
        box, "SELECT relname, relkind::text FROM pg_class WHERE relnamespace = %s::regnamespace", [box.schema]
    )
    views = {f"seen_{one}" for one in SEEN}
    assert {name for name, _ in relations if name.startswith("seen_")} == views
    for role in (*RIGHTS, "stranger"):
        with psycopg.connect(dsn_of(box, role), autocommit=True) as connection:
            for name, kind in relations:
                if kind not in "rpvS" or name in CATALOGUE or (name in views and role in RIGHTS):
                    continue
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"SELECT * FROM {box.schema}.{name}")
            for name in views:
                with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)):
                    connection.execute(f"DELETE FROM {box.schema}.{name}")


def test_a_view_of_a_role_keeps_its_rows_from_a_function_of_the_role(box):
    """A predicate that tells what it is given is asked of no row that the role doesn't see."""
    told = []
    rows(box, "GRANT CREATE ON SCHEMA public TO watcher")
    with psycopg.connect(dsn_of(box, "watcher"), autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        connection.execute(
            "CREATE FUNCTION public.tell(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS "
            "$$ BEGIN RAISE NOTICE '%', $1; RETURN TRUE; END $$"
        )
        for view in ("entries", "spool", "known_groups", "stored_messages", "message_places"):
            connection.execute(f"SELECT * FROM {box.schema}.seen_{view} AS one WHERE public.tell(one::text)")
    assert told
    assert not re.search(f"v1|{SECRET}", str(told))


def test_by_command(box):
    def run(*arguments):
        return CliRunner().invoke(main, [*arguments, "--schema", box.schema])

    role = ["--dsn", dsn_of(box, "watcher")]
    owner = ["--dsn", box.dsn]
    listed = run("groups", "--all", *role)
    assert (listed.exit_code, "c1" in listed.output, "v1" in listed.output) == (0, True, False), listed.output
    assert run("queues", *role).exit_code == run("messages", "list", *role).exit_code == 0
    assert run("group", "show", "c1", *role).exit_code == run("find", "c1-1", *role).exit_code == 0
    refused = run("group", "suspend", "c1", "--reason", "x", *role)
    assert refused.exit_code != 0
    assert "--operate shop" in refused.output
    assert run("box", "grant", "watcher", "--operate", "shop", "--see-bodies", "shop", *owner).exit_code == 0
    assert run("group", "suspend", "c1", "--reason", "x", "--actor", "boss", *role).exit_code == 0
    assert rows(box, "SELECT actor, role FROM box.operator_log") == [("boss", "watcher")]
    assert [(one.see, one.see_bodies, one.operate) for one in grants(box) if one.role == "watcher"] == [
        (["shop"], ["shop"], ["shop"])
    ]
    assert run("box", "revoke", "watcher", "--see", "shop", "--see-bodies", "shop", *owner).exit_code == 0
    assert run("group", "resume", "c1", "--reason", "x", *role).exit_code == 0
    assert run("box", "revoke", "watcher", *owner).exit_code == 0
    assert run("groups", *role).exit_code != 0
    assert "permission denied for schema" in run("groups", *role).output


def test_an_operator_does_a_bulk_operation_on_its_own_queues_only(box):
    def gathered(own, *queues):
        views = [one for queue in queues for one in groups.groups(box, queue, state=list(groups.GroupState))]
        return bulk_operations.gather(own, Action.SUSPEND, views, chosen_by={}, actor="ann", reason="r")

    of_all = gathered(box, "shop", "vault")
    with as_role(box, "mender") as own:
        mine = gathered(own, "shop")
        assert [one.bulk_id for one in bulk_operations.bulk_operations(own)] == [mine.bulk_id]
        for refused in (
            lambda: gathered(own, "vault"),
            lambda: bulk_operations.begin(own, of_all.bulk_id),
            lambda: bulk_operations.cancel(own, of_all.bulk_id, actor="ann", reason="r"),
        ):
            with pytest.raises(sq.EnvironmentProblem, match='may not operate on the queue "vault"'):
                refused()
        bulk_operations.begin(box, of_all.bulk_id)
        assert bulk_operations.work(own) is None
        bulk_operations.begin(own, mine.bulk_id)
        assert bulk_operations.work(own).bulk_id == mine.bulk_id
        queue_id = rows(box, "SELECT queue_id FROM box.queues WHERE queue = 'shop'")[0][0]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            in_sql(
                box,
                "mender",
                "SELECT box.settle_bulk(%s, %s, '{c1}', '{done}', '{NULL}', '{1}')",
                [of_all.bulk_id, queue_id],
            )
    for role in ("watcher", "stranger"):
        with as_role(box, role) as own, pytest.raises(sq.EnvironmentProblem, match="may not operate"):
            bulk_operations.work(own)
    assert (bulk_operations.bulk_operation(box, of_all.bulk_id).done, groups.group_view(box, "vault", "v1").state) == (
        0,
        "ready",
    )
