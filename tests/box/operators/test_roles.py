"""Roles: what a role may do is enforced by PostgreSQL, on every table, view, sequence and function of the box."""

from __future__ import annotations

import json

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.pipelines.staging import Staging
from seriatim.cli.main import main
from seriatim.operations import set_aside
from seriatim.operations.box_status import box_status
from seriatim.operations.grants import grant, grants, revoke
from tests.box.given_up import given_up
from tests.box.roles import CATALOGUE

RELATIONS = """
    SELECT class.oid::regclass::text, class.relkind::text FROM pg_class AS class
    WHERE class.relnamespace = %s::regnamespace AND class.relkind IN ('r', 'p', 'v', 'm', 'S') ORDER BY 1
"""
FUNCTIONS = """
    SELECT function.oid::regprocedure::text, function.oid::regproc::text, function.prosecdef,
        function.prorettype = 'trigger'::regtype, coalesce(function.proargnames, '{}'),
        ARRAY(SELECT replace(kind::regtype::text, 'anyarray', 'text[]') FROM unnest(function.proargtypes::oid[]) AS kind)
    FROM pg_proc AS function WHERE function.pronamespace = %s::regnamespace ORDER BY 1
"""
#: An argument of each type that a function has, but for arrays.
ARGUMENTS = {
    "integer": "0", "bigint": "0", "text": "''", "boolean": "FALSE", "jsonb": "'{}'", "bytea": "''", "interval": "'0'",
    "date": "'today'", "timestamp with time zone": "'today'", "regrole": "'0'",
    "uuid": "gen_random_uuid()", "xid": "'0'", "xid8": "'0'",
}  # fmt: skip
EMPTY = "'{}'"


def functions_of(box):
    """Every function: its signature; whether it runs as the owner; whether it is a trigger's; how to call it."""
    with psycopg.connect(box.dsn) as owner:
        found = owner.execute(FUNCTIONS, [box.schema]).fetchall()
    assert len(found) > 30
    return [
        (
            signature,
            definer,
            trigger,
            lambda given, name=name, names=names, kinds=kinds: called(name, names, kinds, given),
        )
        for signature, name, definer, trigger, names, kinds in found
    ]


def called(name, names, kinds, given):
    arguments = [
        # A row of a table is NULL.
        f"{given.get(argument) or ARGUMENTS.get(kind, 'NULL' if '.' in kind else EMPTY)}::{kind}"
        for argument, kind in zip(names or [""] * len(kinds), kinds, strict=False)
    ]
    return f"SELECT * FROM {name}({', '.join(arguments)})"


def id_of(box, queue):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT queue_id FROM {box.schema}.queues WHERE queue = %s", [queue]).fetchone()[
            0
        ]


@pytest.fixture
def team(box):
    """A box with three queues, and makes roles that can log in: `role("name")` answers with a DSN."""
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("shop", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("pick", policy=sq.Unordered()),
        sq.Queue("vault", policy=sq.Fifo(), group="customer"),
        sq.Subscription("shop", where="customer LIKE 'c%'", to="shop"),
        sq.Subscription("vault", where="customer LIKE 'v%'", to="vault"),
        sq.Subscription("both", where="customer LIKE 'b%'", to="vault"),
        sq.Subscription("both too", where="customer LIKE 'b%'", to="shop"),
    )
    made = []

    def role(name, options="LOGIN"):
        full = f"{box.schema}_{name}"
        with box.session() as tx:
            tx.connection.execute(sql.SQL("CREATE ROLE {} " + options).format(sql.Identifier(full)))
        made.append(full)
        return full, box.dsn.replace("seriatim@", f"{full}@")

    yield box, role
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {box.schema} CASCADE")
        for name in made:
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


def order(customer, version=1, **more):
    return sq.Message(type="order", context={"customer": customer, "version": version}, **more)


def opened(box, dsn):
    return sq.MessageBox.open(dsn, schema=box.schema)


@pytest.mark.parametrize("side", [PipelineFeed, Staging])
def test_what_spark_reads_and_writes_is_the_owners(team, side):
    box, role = team
    name, dsn = role("full")
    queues = ["shop", "pick", "vault"]
    grant(box, name, publish=queues, receive=queues, subscribe=queues, route=True)
    with pytest.raises(sq.EnvironmentProblem, match=f"the role '{name}' doesn't own the message box") as caught:
        side(dsn, box.schema, queue="shop")
    assert "use a DSN of 'seriatim'" in caught.value.remedy
    with box.session() as tx:
        tx.connection.execute(sql.SQL("GRANT seriatim TO {}").format(sql.Identifier(name)))
    side(dsn, box.schema, queue="shop").close()


def test_every_relation_is_refused(team):
    box, role = team
    name, dsn = role("full")
    queues = ["shop", "pick", "vault"]
    grant(box, name, publish=queues, receive=queues, subscribe=queues, route=True)
    with psycopg.connect(box.dsn) as owner:
        relations = owner.execute(RELATIONS, [box.schema]).fetchall()
    assert {"r", "v", "S"} <= {kind for _, kind in relations}
    tried = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        for relation, kind in relations:
            if relation.rpartition(".")[2] in CATALOGUE:
                assert kind == "v"
                connection.execute(f"SELECT * FROM {relation}")
                continue
            statements = [f"SELECT * FROM {relation}"]
            if kind == "S":
                statements += [f"SELECT nextval('{relation}')", f"SELECT setval('{relation}', 1)"]
            else:
                statements.append(f"LOCK TABLE {relation}")
            if kind in "rp":
                statements += [
                    f"DELETE FROM {relation}", f"TRUNCATE {relation}", f"INSERT INTO {relation} DEFAULT VALUES",
                    f"COPY (SELECT FROM {relation}) TO STDOUT",
                ]  # fmt: skip
            for statement in statements:
                with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                    connection.execute(statement)
                tried += 1
    assert tried > 100
    with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"CREATE TABLE {box.schema}.mine (id int)")


def test_every_function_is_refused_to_a_role_without_rights(team):
    box, role = team
    _, dsn = role("nobody")
    with psycopg.connect(box.dsn) as owner:
        owner.execute(f"GRANT USAGE ON SCHEMA {box.schema} TO PUBLIC")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for signature, _, trigger, call in functions_of(box):
            refusal = psycopg.errors.DatatypeMismatch if trigger else psycopg.errors.InsufficientPrivilege
            with pytest.raises((psycopg.errors.InsufficientPrivilege, refusal)):
                print(signature, connection.execute(call({})))  # noqa: T201 -- which one it was
    with pytest.raises(sq.EnvironmentProblem, match="permission denied"):
        opened(box, dsn)


def test_what_a_role_may_call_looks_by_itself_whether_it_may(team):
    """Whoever is let in by a right for one queue can't do anything with another, whatever he calls."""
    box, role = team
    name, dsn = role("shop")
    grant(box, name, receive=["pick"])
    vault = id_of(box, "vault")
    with box.session() as tx:
        tx.publish([order("v1"), order("v2")])
        entries = tx.connection.execute(f"SELECT * FROM {box.schema}.entries ORDER BY entry_id").fetchall()
    ids = f"'{{{','.join(str(row[0]) for row in entries)}}}'"
    given = {
        "of_queue": str(vault), "entry_queues": f"ARRAY[{vault}]", "to_queue": "'vault'", "entry_ids": ids,
        "kept_ids": ids, "of_entries": ids,
    }  # fmt: skip
    allowed, refused, wrong, lost = set(), set(), set(), set()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for signature, definer, trigger, call in functions_of(box):
            if trigger:
                continue
            try:
                connection.execute(call(given))
            except psycopg.errors.InsufficientPrivilege as error:
                assert definer != ("permission denied for function" in str(error)), signature  # noqa: PT017 -- for some
                (refused if definer else set()).add(signature.split("(")[0].split(".")[1])
            except psycopg.errors.InvalidParameterValue:
                wrong.add(signature.split("(")[0].split(".")[1])  # there is no such service, dialog or queue
            except psycopg.errors.CheckViolation:  # it is let in, and given nothing
                allowed.add(signature.split("(")[0].split(".")[1])
            except psycopg.DatabaseError as error:
                assert error.sqlstate == "SQ005", signature  # noqa: PT017 -- there is no such lease
                lost.add(signature.split("(")[0].split(".")[1])
            else:
                allowed.add(signature.split("(")[0].split(".")[1])
    # What whoever routes has to know: the definitions. What one process at a time does is the same for all. `unregister`: a waiter of one's own.
    # What is about a dialog looks for its queue, and here there is no such dialog. Time is nobody's.
    # `activations`, `failed_messages`: of the queues that it may receive from.
    known = {
        "schema_version",
        "applied_migrations",
        "applied_functions",
        "version",
        "definitions",
        "is_unrouted",
        "settled",
        "unregister",
    }
    # `sees`, `sends_to`: the queues and services of its own rights; `call_all_waiters`, `beat`: here of no queue; `forget_process`: of its own.
    known |= {
        "activations",
        "failed_messages",
        "claim_chore",
        "sees",
        "sees_all",
        "sends_to",
        "call_all_waiters",
        "beat",
        "forget_process",
    }
    known |= {"ports_known"}  # names and counts
    known |= {"open_places", "open_places_of"}  # of gates that it sees
    # Of its own leases, or of those that ended an hour ago; who judges, and for which queues nobody does.
    known |= {"note_answer", "drop_deliveries", "judges_here", "asked_in_vain"}
    known |= {
        "link_push",
        "link_fetch",
        "link_trace",
    }  # they answer everybody, and whom they don't know they tell nothing
    known |= {"find_token", "is_own_space"}  # of a token that one has; of one's own ids
    known |= {"asked_for", "replies_of"}  # of requests whose ids nobody can guess, and of one's own
    known |= {"look_at_identity", "identity_shown", "why_disabled"}  # which box it is, and whether it is disabled
    of_dialogs = {"try_begin", "try_send", "try_send_run", "try_end", "try_set_timer", "try_move", "converse"}
    of_dialogs |= {"drop_ended", "fail_dialogs", "group_of", "history_of", "is_due", "fire_dialogs"}
    assert allowed == known | of_dialogs
    assert lost == {"at_lease", "complete", "leased_body", "renew", "give_back"}
    assert wrong == {
        "receive",
        "fail",
        "begin_dialog",
        "begin_monolog",
        "send",
        "end_dialog",
        "set_dialog_timer",
        "move_dialog",
    }
    assert {"take_in", "publish", "hand_out", "decide", "complete_entries", "put_back", "handed", "route"} <= refused
    with box.session() as tx:
        left = tx.connection.execute(f"SELECT * FROM {box.schema}.entries ORDER BY entry_id").fetchall()
    assert left == entries


def test_entries_of_another_queue_are_refused(team):
    box, role = team
    name, dsn = role("shop")
    grant(box, name, receive=["shop"])
    shop = id_of(box, "shop")
    with box.session() as tx:
        tx.publish([order("v1"), order("c1")])
        (entry,) = tx.connection.execute(
            f"SELECT entry_id FROM {box.schema}.entries WHERE queue_id <> {shop}"
        ).fetchone()
    calls = [
        f"complete_entries({shop}, ARRAY[{entry}]::bigint[], ARRAY[1]::bigint[], ARRAY[FALSE], 0, 'nothing')",
        f"put_back({shop}, 'v1', ARRAY[{entry}]::bigint[], ARRAY[1]::bigint[], ARRAY[FALSE])",
        f"handed({shop}, ARRAY[{entry}]::bigint[])",
    ]
    with psycopg.connect(dsn, autocommit=True) as connection:
        for call in calls:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="in another queue"):
                connection.execute(f"SELECT {box.schema}.{call}")
    with box.session() as tx:
        assert len(tx.receive("vault")) == 1


@pytest.mark.parametrize("queue", ["shop", "pick"])
def test_with_rights_on_one_queue_all_can_be_done_there(team, queue):
    box, role = team
    name, dsn = role("worker")
    grant(box, name, publish=[queue], receive=[queue])
    with opened(box, dsn) as own:
        with own.session() as tx:
            tx.publish([order("x", n, message_id=str(n)) for n in (2, 1)])  # addressed below
            tx.publish(
                [
                    sq.Message(type="order", message_id=f"m{n}", context={"customer": "x", "version": n, "to": queue})
                    for n in (2, 1)
                ]
            )
        with given_up(own.session()) as tx:
            assert len(tx.receive(queue, limit=10)) == 2
        with own.session() as tx:
            delivery = tx.receive(queue, limit=10)
            delivery.put_back()
            assert sorted(one.message_id for one in tx.receive(queue, limit=10, wait=None)) == ["m1", "m2"]
        with own.session() as tx:
            assert tx.receive(queue, wait=0.05) is None
    with box.session() as tx:
        assert tx.connection.execute(f"SELECT count(*) FROM {box.schema}.entries").fetchone() == (0,)
        # What no subscription wants may be published: it is kept for whoever runs the box.
        assert tx.connection.execute(f"SELECT count(*) FROM {box.schema}.unrouted").fetchone() == (2,)


def test_what_is_routed_elsewhere_is_refused_with_the_name_of_the_queue(team):
    box, role = team
    name, dsn = role("clerk")
    grant(box, name, publish=["shop"], receive=["shop"])
    with opened(box, dsn) as own:
        for wrong in (order("v1"), order("b1"), sq.Message(type="order", context={"customer": "c1", "to": "vault"})):
            refusal = f'"{name}" may not publish to the queue "vault"'
            with pytest.raises(sq.EnvironmentProblem, match=refusal), own.session() as tx:
                tx.publish([order("c1"), wrong])
        with pytest.raises(sq.EnvironmentProblem, match='may not receive from the queue "vault"'), own.session() as tx:
            tx.receive("vault")
        for refused in (
            lambda: own.define(sq.Queue("mine", policy=sq.Unordered())),
            lambda: own.define(sq.Subscription("mine", where="TRUE", to="shop")),
            lambda: grant(own, name, publish=["vault"]),
            lambda: revoke(own, name),
            lambda: grants(own),
            lambda: box_status(own),
            own.tick,
        ):
            with pytest.raises(sq.EnvironmentProblem, match=r"may not|permission denied"):
                refused()
    with box.session() as tx:
        assert tx.connection.execute(f"SELECT count(*) FROM {box.schema}.spool").fetchone() == (0,)


def test_only_receiving_or_only_publishing(team):
    box, role = team
    sender, sends = role("sender")
    taker, takes = role("taker")
    grant(box, sender, publish=["shop"])
    grant(box, taker, receive=["shop"])
    with opened(box, sends) as out, opened(box, takes) as back:
        with out.session() as tx:
            tx.publish(order("c1"))
        with pytest.raises(sq.EnvironmentProblem, match="may not receive from"), out.session() as tx:
            tx.receive("shop")
        with pytest.raises(sq.EnvironmentProblem, match="may not publish to any queue"), back.session() as tx:
            tx.publish(order("nobody wants it"))
        for limited in (out, back):
            refusal = 'may not dispense tickets of the location "crm"'
            with pytest.raises(sq.EnvironmentProblem, match=refusal), limited.session() as tx:
                tx.dispense("crm")
        with back.session() as tx:
            assert len(tx.receive("shop", wait=60)) == 1


def test_subscribing(team):
    box, role = team
    name, dsn = role("reader")
    grant(box, name, subscribe=["pick"], receive=["pick"], types=["order"])
    with opened(box, dsn) as own:
        own.define(sq.Subscription("mine", where="type = 'order'", to="pick"))
        own.define(sq.Subscription("mine", where="customer = 'c1'", to="pick"))
        for wrong in (
            sq.Subscription("other", where="TRUE", to="vault"),
            sq.Subscription("vault", where="TRUE", to="pick"),  # takes it away from `vault`
            sq.Subscription("mine", where="TRUE", to="vault"),
        ):
            with pytest.raises(sq.EnvironmentProblem, match='may not subscribe for the queue "vault"'):
                own.define(wrong)
        with box.session() as tx:
            tx.publish([order("c1"), order("c2")])
        with own.session() as tx:
            assert [one.context["customer"] for one in tx.receive("pick", limit=10)] == ["c1"]


def test_published_through_sql_by_a_role(team):
    box, role = team
    name, dsn = role("trigger")
    grant(box, name, publish=["shop"], receive=["shop"])
    with psycopg.connect(dsn) as connection:
        for customer in ("c1", "v1", "b1", "nobody"):
            connection.execute(
                f"SELECT {box.schema}.publish('order', '', jsonb_build_object('customer', %s::text, 'version', 1), %s)",
                [customer, customer],
            )
    # It may not read what others published, so somebody else has to route; until then nothing passes it.
    with box.session() as tx:
        tx.publish(order("c1", 2))
    with opened(box, dsn) as own:
        with own.session() as tx:
            assert tx.receive("shop", limit=10) is None
        with own.session() as tx:
            assert tx.receive("shop", wait=0.05) is None
            assert tx.receive("shop", group="c1") is None
        assert box.tick().routed == 4
        with own.session() as tx:
            assert [one.sequence for one in tx.receive("shop", limit=10)] == [1, 2]
    with box.session() as tx:
        told = dict(
            tx.connection.execute(
                f"SELECT message_id, problem FROM {box.schema}.unrouted "
                f"JOIN {box.schema}.spool USING (arrival_id, position)"
            ).fetchall()
        )
        assert tx.receive("vault") is None
    refusal = f"the role '{name}' may not publish to queue 'vault'"
    assert told == {"v1": refusal, "b1": refusal, "nobody": None}


def test_a_role_that_may_route(team):
    box, role = team
    name, dsn = role("router")
    grant(box, name, receive=["shop"], route=True)
    with psycopg.connect(box.dsn) as connection:
        for customer in ("c1", "v1"):
            connection.execute(
                f"SELECT {box.schema}.publish('order', '', jsonb_build_object('customer', %s::text, 'version', 1))",
                [customer],
            )
    with opened(box, dsn) as own, own.session() as tx:
        assert tx.receive("shop").group == "c1"
    with box.session() as tx:
        assert tx.receive("vault").group == "v1"


def test_rights_of_a_role_that_one_is_a_member_of(team):
    box, role = team
    group, _ = role("group", "NOLOGIN")
    member, dsn = role("member")
    heir, heirs = role("heir")
    with box.session() as tx:
        tx.connection.execute(f"GRANT {group} TO {member}")
        (owner,) = tx.connection.execute("SELECT current_user").fetchone()
        tx.connection.execute(f"GRANT {owner} TO {heir}")
    grant(box, group, publish=["shop"], receive=["shop"])
    with opened(box, dsn) as own:
        with own.session() as tx:
            tx.publish(order("c1"))
        with own.session() as tx:
            assert len(tx.receive("shop")) == 1
    with opened(box, heirs) as own, own.session() as tx:
        tx.publish(order("v1"))


def test_the_role_that_was_set_counts(team):
    box, role = team
    low, _ = role("low", "NOLOGIN")
    grant(box, low, publish=["shop"])
    with psycopg.connect(box.dsn) as connection:
        connection.execute(f"SET ROLE {low}")
        with box.session(connection) as tx:
            tx.publish(order("c1"))
            with pytest.raises(sq.EnvironmentProblem, match='the queue "vault"'):
                tx.publish(order("v1"))


def test_revoking(team):
    box, role = team
    name, dsn = role("leaver")
    grant(box, name, publish=["shop", "pick"], receive=["shop"], route=True)
    grant(box, name, publish=["shop"])  # again: nothing changes
    assert [(one.publish, one.receive, one.subscribe, one.route) for one in grants(box)] == [
        (["pick", "shop"], ["shop"], [], True)
    ]
    revoke(box, name, publish=["pick"], route=True)
    assert [(one.publish, one.receive, one.route) for one in grants(box)] == [(["shop"], ["shop"], False)]
    with opened(box, dsn) as own:
        with own.session() as tx:
            tx.publish(order("c1"))
        revoke(box, name)
        with pytest.raises(sq.EnvironmentProblem, match=r"permission denied for schema"), own.session() as tx:
            tx.publish(order("c1"))
    assert grants(box) == []
    with box.session() as tx:
        tx.connection.execute(f"DROP ROLE {name}; CREATE ROLE {name}")  # nothing of it is left that keeps it


def test_a_role_that_was_dropped_before_its_rights_were_revoked(team):
    box, role = team
    name, _ = role("gone")
    grant(box, name, publish=["shop"], types=["order"])
    with box.session() as tx:
        tx.connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}; CREATE ROLE {name}")
    assert sq.MessageBox.migrate(box.dsn, schema=box.schema) == []
    (left,) = grants(box)
    assert left.role.startswith("unknown (OID=")
    revoke(box, left.role)
    assert grants(box) == []
    with box.session() as tx:
        assert tx.connection.execute(f"SELECT FROM {box.schema}.id_spaces").fetchall() == []


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (grant, "no right is named"),
        (lambda box, name: grant(box, name, publish=["ship"]), "no queue 'ship'"),
        (lambda box, name: grant(box, name, dispense=["crm"]), "no location 'crm'"),
        (lambda box, _: grant(box, "nobody at all", publish=["shop"]), "no role 'nobody at all'"),
        (revoke, "has no rights"),
        (lambda box, _: revoke(box, "nobody at all"), "has no rights"),
    ],
)
def test_what_cannot_be_granted(team, wrong, why):
    box, role = team
    name, _ = role("some")
    with pytest.raises(sq.UsageError, match=why):
        wrong(box, name)
    assert grants(box) == []


def test_a_name_that_needs_quotes(team):
    box, role = team
    name, _ = role('odd "name"; --')
    grant(box, name, publish=["shop"])
    assert [one.role for one in grants(box)] == [name]
    with psycopg.connect(box.dsn, user=name) as connection, box.session(connection) as tx:
        tx.publish(order("c1"))


def test_the_commands(team):
    box, role = team
    name, _ = role("typed")
    where = ["--dsn", box.dsn, "--schema", box.schema]

    def call(*words, code=0):
        result = CliRunner().invoke(main, ["box", *words, *where])
        assert result.exit_code == code, result.output
        return result

    box.define(sq.Location("crm"))
    words = ("--publish", "shop", "--publish", "pick", "--receive", "shop", "--subscribe", "shop", "--route")
    call("grant", name, *words, "--dispense", "crm", "--type", "order", "--type", "bill", "--id-space", "typed")
    (told,) = json.loads(call("grants", "--json").stdout)
    assert told == {
        "role": name, "publish": ["pick", "shop"], "receive": ["shop"], "subscribe": ["shop"], "route": True,
        "dispense": ["crm"], "types": ["bill", "order"], "id_space": "typed", "send": [],
        "see": [], "see_bodies": [], "operate": [],
    }  # fmt: skip
    shown = [name, "pick,", "shop", "shop", "shop", "bill,", "order", "yes", "crm", "typed"]
    assert call("grants").stdout.splitlines()[1].split() == shown
    call("revoke", name, "--type", "bill", "--dispense", "crm")
    assert json.loads(call("grants", "--json").stdout)[0]["dispense"] == []
    assert json.loads(call("grants", "--json").stdout)[0]["types"] == ["order"]
    call("revoke", name, "--publish", "pick")
    assert json.loads(call("grants", "--json").stdout)[0]["publish"] == ["shop"]
    call("revoke", name)
    assert json.loads(call("grants", "--json").stdout) == []
    assert "no queue 'shp'" in call("grant", name, "--publish", "shp", code=2).stderr
    with psycopg.connect(box.dsn) as connection:
        connection.execute(f"SELECT {box.schema}.publish('order', '')")
    assert json.loads(call("tick", "--json").stdout) == {
        "routed": 1,
        "groups": 0,
        "recovered": 0,
        "dialogs": 0,
        "scheduled": 0,
        "put_right": 0,
        "failed": [],
    }
    assert (
        call("tick").stdout
        == "routed 0 messages, judged 0 groups, fired the timers of 0 dialogs, recovered 0, published 0 of schedules\n"
    )


def test_only_the_role_that_holds_a_port_keeps_it_and_gives_it_back(team):
    box, role = team
    dsns = [role(name)[1] for name in ("first", "second")]
    for name in ("first", "second"):
        grant(box, f"{box.schema}_{name}", publish=["shop"])
    claim = f"SELECT token FROM {box.schema}.claim_port('lab', '', 'mllp', 'a process', '1 hour')"
    keep = f"SELECT {box.schema}.keep_port('lab', '', %s, '1 hour', %s, '7', 0, 0, 0, 0, NULL)"
    leave = f"SELECT {box.schema}.leave_port('lab', '', 1)"
    with psycopg.connect(dsns[0], autocommit=True) as holder, psycopg.connect(dsns[1], autocommit=True) as other:
        assert holder.execute(claim).fetchone() == (1,)
        assert other.execute(keep, [1, None]).fetchone() == (False,)
        other.execute(leave)
        assert other.execute(claim).fetchone() is None
        assert holder.execute(claim).fetchone() == (2,)  # its own one
        for former, is_kept in ((None, True), ("6", True), ("7", True)):  # the second: the same commit once more
            assert holder.execute(keep, [2, former]).fetchone() == (is_kept,)
        assert holder.execute(keep.replace("'7'", "'8'"), [2, "6"]).fetchone() == (False,)
        holder.execute(leave.replace("1)", "2)"))
        assert other.execute(claim).fetchone() == (3,)


def test_a_role_whose_last_queue_was_dropped_can_be_shut_out(team):
    box, role = team
    name, _ = role("widow")
    box.define(sq.Queue("gone", policy=sq.Unordered()))
    grant(box, name, receive=["gone"])
    box.drop(queue="gone")
    with pytest.raises(sq.UsageError, match="has no rights"):
        revoke(box, name, publish=["shop"])
    revoke(box, name)
    with pytest.raises(sq.UsageError, match="has no rights"):
        revoke(box, name)
    with psycopg.connect(box.dsn) as owner:
        may_enter = owner.execute("SELECT has_schema_privilege(%s, %s, 'USAGE')", [name, box.schema]).fetchone()
    assert may_enter == (False,)


def test_what_was_set_aside_is_deleted_by_the_owner_alone(team):
    box, role = team
    name, dsn = role("full")
    grant(box, name, publish=["shop"], receive=["shop"], subscribe=["shop"], route=True)
    box.publish([order("c1"), order("c1"), sq.Message(type="odd")])
    with box.session() as tx:
        tx.receive("shop")
    found = set_aside.set_aside(box)
    assert [one.status for one in found] == ["unrouted", "duplicate"]
    with opened(box, dsn) as limited:
        with pytest.raises(sq.EnvironmentProblem, match="may not see any queue"):
            set_aside.set_aside(limited)
        for one in found:
            with pytest.raises(sq.EnvironmentProblem, match="permission denied"):
                set_aside.delete(limited, [one], actor="eve", reason="because")
    assert set_aside.set_aside(box) == found
