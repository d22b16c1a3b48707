"""The schema: made at once or by hand it is the same; an older or newer one is refused with what helps; nobody sees two versions."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

import seriatim as sq
from seriatim.box.postgres import migrate as migrating
from seriatim.box.postgres import migration_locks
from seriatim.box.postgres import routines as present
from seriatim.box.postgres.migrate import Migration, fresh_sql, migrate, migrations
from seriatim.box.postgres.routines import routines
from seriatim.box.postgres.statements import Statements
from seriatim.box.postgres.template import for_schema
from seriatim.operations.box_status import box_status
from seriatim.operations.grants import grant, revoke
from seriatim.operations.links import transmit
from tests.blocked import wait_until_blocked
from tests.box.links.pairs import carried, paired
from tests.box.roles import make_owner
from tests.box.schema_text import schema_text

#: Settings of a role with which a schema that relied on the defaults would become another one, or none.
ODD_SETTINGS = {
    "array_nulls": "off",
    "backslash_quote": "off",
    "bytea_output": "escape",
    "check_function_bodies": "on",
    "client_min_messages": "error",
    "datestyle": "SQL, DMY",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "enable_seqscan": "off",
    "escape_string_warning": "on",
    "extra_float_digits": "-15",
    "idle_in_transaction_session_timeout": "5s",
    "intervalstyle": "sql_standard",
    "jit_above_cost": "0",
    "lc_messages": "C",
    "lock_timeout": "5s",
    "plan_cache_mode": "force_custom_plan",
    "plpgsql.check_asserts": "off",
    "plpgsql.extra_errors": "all",
    "plpgsql.extra_warnings": "all",
    "quote_all_identifiers": "on",
    "row_security": "off",
    "standard_conforming_strings": "off",
    "statement_timeout": "20s",
    "synchronous_commit": "off",
    "timezone": "Asia/Kathmandu",
    "transform_null_equals": "on",
    "xmloption": "document",
}


@pytest.fixture
def database(databases):
    """Makes databases of their own."""
    with ExitStack() as made:
        yield lambda: made.enter_context(databases.clone())


@pytest.fixture
def own(database):
    """A box in a database of its own, in the schema `seriatim`."""
    dsn = database()
    sq.MessageBox.migrate(dsn)
    with sq.MessageBox.open(dsn) as opened:
        yield opened


@contextmanager
def newer(monkeypatch, *, functions=(), views=(), migration=None):
    """A seriatim with other functions or views, or another migration, than this one; texts are those of files."""
    known = {one.name: one for one in routines()}
    for text in functions:
        one = _function(text)
        known[one.name] = one
    for text in views:
        one = _view(text)
        known[one.name] = one
    with monkeypatch.context() as patch:
        _exchange(patch, tuple(known.values()))
        if migration is not None:
            made = Migration(migrations()[-1].number + 1, "newer")
            patch.setattr(migrating, "migrations", lambda: (*migrations(), made))
            text = migrating.template
            patch.setattr(
                migrating, "template", lambda package, path: migration if made.name in path else text(package, path)
            )
        yield


def _exchange(patch, known):
    for module in ("seriatim.box.postgres.migrate", "seriatim.box.postgres.replacement"):
        patch.setattr(f"{module}.routines", lambda: known)
    patch.setattr(present, "routines", lambda: known)
    named = {one.name: one for one in sorted(known, key=lambda one: one.name)}
    for where in (migrating, present):
        patch.setattr(where, "by_name", lambda: named)
        patch.setattr(where, "checksum", present.checksum.__wrapped__)


def _function(text):
    return present.read_text("f.sql", text)


def _view(text):
    return present.read_text("v.sql", text)


def test_made_at_once_or_by_hand_it_is_the_same(database):
    fresh, by_hand = database(), database()
    sq.MessageBox.open(fresh).close()
    with psycopg.connect(by_hand, autocommit=True) as connection:
        connection.execute(fresh_sql("seriatim"))
    assert schema_text(fresh) == schema_text(by_hand)
    with sq.MessageBox.open(by_hand) as box:  # the record is there, too
        assert box_status(box).version == migrations()[-1].number


def test_again_it_changes_nothing(box):
    with psycopg.connect(box.dsn) as connection:
        assert migrate(Statements(connection, box.schema)) == []
    assert sq.MessageBox.migrate(box.dsn, schema=box.schema) == []


def test_by_several_at_once_it_is_made_once(box):
    schema = f"{box.schema}_at_once"
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: sq.MessageBox.migrate(box.dsn, schema=schema), range(8)))
    assert sorted(map(len, made)) == [0] * 7 + [len(migrations())]


def test_settings_of_a_role_change_nothing(database):
    plain, odd = database(), database()
    sq.MessageBox.migrate(plain)
    for _ in range(2):  # functions are replaced under them, too
        with psycopg.connect(odd, autocommit=True) as connection:
            for name, value in ODD_SETTINGS.items():
                connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {name} = '{value}'")
        sq.MessageBox.migrate(odd)
        with psycopg.connect(odd, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} RESET ALL")
        assert schema_text(plain) == schema_text(odd)


@pytest.mark.parametrize(
    ("version", "helps"), [(1_090, "pip install --upgrade"), (89, "use the build"), (30, "with the commit 8473f540")]
)
def test_another_version_is_refused_with_what_helps(box, version, helps):
    newest = migrations()[-1].number
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.migrations SET number = number + %s", [version - newest])
    for call in (sq.MessageBox.open, sq.MessageBox.migrate):
        with pytest.raises(sq.SchemaMismatch, match=str(version)) as caught:
            call(box.dsn, schema=box.schema)
        assert helps in caught.value.remedy
        assert box.schema in str(caught.value)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("UPDATE {}.migrations SET checksum = 'other'", "migration 0090 (baseline) was another text there"),
        ("INSERT INTO {}.migrations VALUES (80, 'before')", "a migration 0080, which this one hasn't"),
    ],
)
def test_one_of_another_build_is_refused(box, change, what):
    with box.session() as tx:
        tx.connection.execute(change.format(box.schema))
    for call in (sq.MessageBox.open, sq.MessageBox.migrate, sq.MessageBox.check):
        with pytest.raises(sq.SchemaMismatch, match="another build of seriatim has made the schema") as caught:
            call(box.dsn, schema=box.schema)
        assert what in caught.value.what
        assert "use the build that made it" in caught.value.remedy


def test_one_that_lacks_functions_gets_them_by_a_migration(box):
    with box.session() as tx:
        tx.connection.execute(
            f"DROP FUNCTION {box.schema}.hand_out, {box.schema}.complete, {box.schema}.applied_functions"
        )
        tx.connection.execute(f"DROP FUNCTION {box.schema}.applied_migrations")
    for call in (sq.MessageBox.open, sq.MessageBox.check):
        with pytest.raises(
            sq.SchemaMismatch, match=r"applied_functions, applied_migrations, complete, hand_out"
        ) as caught:
            call(box.dsn, schema=box.schema)
        assert "seriatim box migrate" in caught.value.remedy
    assert sq.MessageBox.migrate(box.dsn, schema=box.schema) == []
    sq.MessageBox.check(box.dsn, schema=box.schema)


def test_who_holds_a_migration_up_is_named(box):
    """Whoever may log in can take that lock."""
    with psycopg.connect(box.dsn) as holder:
        holder.execute("SELECT pg_advisory_lock(hashtextextended('seriatim:' || %s, 0))", [box.schema])
        dsn = f"{box.dsn}&options=-clock_timeout%3D50ms"
        with pytest.raises(
            sq.Unavailable, match=f"process {holder.info.backend_pid} of the role 'seriatim' has the lock"
        ):
            sq.MessageBox.migrate(dsn, schema=box.schema)


def test_a_schema_that_is_no_box(box):
    with box.session() as tx:
        tx.connection.execute(f"CREATE SCHEMA {box.schema}_else")
    with pytest.raises(sq.SchemaMismatch, match="no message box"):
        sq.MessageBox.open(box.dsn, schema=f"{box.schema}_else")


def test_a_role_that_may_not_make_it(box):
    role = f"{box.schema}_role"
    with box.session() as tx:
        tx.connection.execute(f"CREATE ROLE {role} LOGIN")
    try:
        with pytest.raises(sq.EnvironmentProblem, match="permission denied"):
            sq.MessageBox.open(box.dsn.replace("seriatim@", f"{role}@"), schema=f"{box.schema}_of_role")
    finally:
        with box.session() as tx:
            tx.connection.execute(f"DROP ROLE {role}")


# ---- functions and views are replaced

VERSION = """
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.schema_version() RETURNS bigint
AS $function$
BEGIN
    RETURN 4711;
END
$function$;
"""
MORE = """
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.shown_more(of_queue text DEFAULT 'q') RETURNS bigint
RETURN (SELECT count(*) FROM {schema}.queue_counts WHERE queue = of_queue);
"""
TYPES = """
CREATE OR REPLACE VIEW {schema}.message_types AS SELECT 'newer' AS message_type;
"""
COUNTS = """
CREATE OR REPLACE VIEW {schema}.dispensers AS SELECT location AS place, last_number FROM {schema}.locations;
"""


def definition(box, name):
    with psycopg.connect(box.dsn) as connection:
        return connection.execute(
            "SELECT pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc"
            " WHERE pronamespace = %s::regnamespace AND proname = %s",
            [box.schema, name],
        ).fetchall()


def test_what_has_changed_is_replaced_and_what_is_gone_is_dropped(own, monkeypatch):
    with newer(monkeypatch, functions=[VERSION, MORE], views=[COUNTS]):
        assert sq.MessageBox.migrate(own.dsn) == []
        assert definition(own, "schema_version") == [("", "bigint")]
        assert definition(own, "shown_more") == [("of_queue text DEFAULT 'q'::text", "bigint")]
        with psycopg.connect(own.dsn) as connection:
            columns = connection.execute("SELECT * FROM seriatim.dispensers").description
            assert [column.name for column in columns] == ["place", "last_number"]
            assert connection.execute("SELECT seriatim.schema_version()").fetchone() == (4711,)
    # The seriatim that knows the sets before has become an old one.
    for call in (sq.MessageBox.open, sq.MessageBox.migrate):
        with pytest.raises(sq.SchemaMismatch, match="are of a newer seriatim of the same version") as caught:
            call(own.dsn)
        assert "pip install --upgrade" in caught.value.remedy
    with newer(monkeypatch, functions=[VERSION]):
        sq.MessageBox.migrate(own.dsn)
        assert definition(own, "shown_more") == []


def test_a_migration_changes_tables_under_all_views(own, monkeypatch):
    step = "ALTER TABLE {schema}.locations ALTER COLUMN last_number TYPE numeric; ALTER TABLE {schema}.entries DROP COLUMN attempt, ADD COLUMN attempt integer NOT NULL DEFAULT 0;"
    with newer(monkeypatch, migration=step):
        (made,) = sq.MessageBox.migrate(own.dsn)
        assert (made.number, made.name) == (migrations()[-1].number + 1, "newer")
        sq.MessageBox.check(own.dsn)
    with pytest.raises(sq.SchemaMismatch, match="and this seriatim knows"):
        sq.MessageBox.migrate(own.dsn)


def test_what_is_the_users_and_depends_on_what_has_to_go_keeps_everything_as_it_is(own, monkeypatch):
    with psycopg.connect(own.dsn) as connection:
        connection.execute("CREATE VIEW mine AS SELECT place.location FROM seriatim.dispensers AS place")
        connection.execute("CREATE VIEW public.mine_again AS SELECT location FROM mine")
        connection.execute("CREATE TABLE noted (at bigint DEFAULT seriatim.schema_version())")
    before = schema_text(own.dsn)
    with newer(monkeypatch, functions=[VERSION], views=[COUNTS]):
        with pytest.raises(sq.SchemaMismatch, match="depend on them") as caught:
            sq.MessageBox.migrate(own.dsn)
        assert "default value for column at of table noted" in caught.value.what
        with psycopg.connect(own.dsn) as connection:
            connection.execute("DROP TABLE noted")
        with pytest.raises(sq.SchemaMismatch, match=r"view mine, view mine_again") as caught:
            sq.MessageBox.migrate(own.dsn)
        assert "nothing was changed" in caught.value.what
        assert schema_text(own.dsn) == before
        with psycopg.connect(own.dsn) as connection:
            connection.execute("DROP VIEW mine CASCADE")
        assert sq.MessageBox.migrate(own.dsn) == []


def test_a_users_view_on_what_is_replaced_in_place_stays(own, monkeypatch):
    with psycopg.connect(own.dsn) as connection:
        connection.execute("CREATE VIEW mine AS SELECT location FROM seriatim.dispensers")
    with newer(monkeypatch, functions=[VERSION]):
        assert sq.MessageBox.migrate(own.dsn) == []
    with psycopg.connect(own.dsn) as connection:
        assert connection.execute("SELECT * FROM mine").fetchall() == []


def test_roles_keep_their_rights(own, monkeypatch):
    own.define(
        sq.MessageType("t", properties={"customer": "string"}), sq.Queue("q", policy=sq.Fifo(), group="customer")
    )
    with psycopg.connect(own.dsn) as connection:
        connection.execute("CREATE ROLE keeps_rights LOGIN")
    try:
        grant(own, "keeps_rights", publish=["q"], see=["q"])
        with newer(monkeypatch, functions=[VERSION], views=[COUNTS], migration="SELECT 1;"):
            sq.MessageBox.migrate(own.dsn)
            with sq.MessageBox.open(own.dsn.replace("seriatim@", "keeps_rights@")) as role:
                role.publish(sq.Message(type="t", context={"to": "q", "customer": "c"}))
                with psycopg.connect(role.dsn) as connection:
                    assert connection.execute("SELECT count(*) FROM seriatim.seen_entries").fetchone() == (1,)
                    connection.rollback()
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        connection.execute("TABLE seriatim.entries")
    finally:
        with psycopg.connect(own.dsn) as connection:
            connection.execute("DROP OWNED BY keeps_rights")
            connection.execute("DROP ROLE keeps_rights")


def test_the_role_of_another_box_sends_on(databases, monkeypatch):
    with paired(databases) as pair:
        with newer(monkeypatch, migration="SELECT 1;"):
            sq.MessageBox.migrate(pair.far.dsn, schema=pair.far.schema)
        pair.send(1)
        assert transmit(pair.near)[0].error is None
        assert carried(pair.far) == [("c1", 1, False)]


@pytest.mark.parametrize("who", ["superuser", "member"])
def test_a_box_that_another_role_migrates_stays_its_owners(database, monkeypatch, who):
    dsn = database()
    owner, member = make_owner(dsn, "owns_box", "joins_owner")
    sq.MessageBox.migrate(owner)
    with newer(monkeypatch, functions=[MORE], migration="CREATE TABLE {schema}.more ();"):
        sq.MessageBox.migrate(dsn if who == "superuser" else member)
        for one in (owner, member, dsn):
            with sq.MessageBox.open(one) as box:
                box.define(sq.Queue("q", policy=sq.Unordered()))
                box.publish(sq.Message(type="t", context={"to": "q"}))
                with box.session() as tx:
                    assert len(tx.receive("q")) == 1
        with psycopg.connect(dsn) as connection:
            owners = connection.execute(
                "SELECT proowner::regrole::text FROM pg_proc WHERE pronamespace = 'seriatim'::regnamespace"
                " UNION SELECT relowner::regrole::text FROM pg_class WHERE relnamespace = 'seriatim'::regnamespace"
            ).fetchall()
    assert owners == [("owns_box",)]


@pytest.mark.parametrize("who", ["superuser", "member"])
def test_what_other_roles_have_made_of_a_box_becomes_its_owners(database, who):
    dsn = database()
    owner, member = make_owner(dsn, "owns_box", "joins_owner")
    sq.MessageBox.migrate(owner)
    other = "seriatim" if who == "superuser" else "joins_owner"
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE ROLE speaks LOGIN")
        connection.execute(
            f"""
            CREATE TABLE seriatim.history_20260101 PARTITION OF seriatim.history FOR VALUES FROM ('2026-01-01') TO ('2026-01-02');
            ALTER TABLE seriatim.history_20260101 OWNER TO {other};
            ALTER TABLE seriatim.ports OWNER TO {other};
            ALTER SEQUENCE seriatim.far_turns OWNER TO {other};
            CREATE TABLE seriatim.of_a_user ();
            """
        )
    with sq.MessageBox.open(owner) as box:
        box.define(sq.Queue("q", policy=sq.Unordered()))
        grant(box, "speaks", publish=["q"])
        revoke(box, "speaks")
    with psycopg.connect(dsn) as connection:
        for made in ("FUNCTION seriatim.now_us()", "FUNCTION seriatim.is_owner()", "VIEW seriatim.dialogs"):
            connection.execute(f"ALTER {made} OWNER TO {other}")
    assert sq.MessageBox.migrate(dsn if who == "superuser" else member) == []
    with psycopg.connect(dsn) as connection:
        foreign = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'seriatim'::regnamespace AND proowner <> 'owns_box'::regrole"
            " UNION SELECT relname FROM pg_class WHERE relnamespace = 'seriatim'::regnamespace AND relowner <> 'owns_box'::regrole"
        ).fetchall()
    assert foreign == [("of_a_user",)]


def test_an_owner_migrates_a_box_with_a_day_that_a_superuser_has_made(database):
    dsn = database()
    owner, _ = make_owner(dsn, "owns_box", "joins_owner")
    sq.MessageBox.migrate(owner)
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "CREATE TABLE seriatim.history_20260101 PARTITION OF seriatim.history FOR VALUES FROM ('2026-01-01') TO ('2026-01-02')"
        )
    assert sq.MessageBox.migrate(owner) == []


def test_a_role_that_can_not_become_the_owner_migrates_nothing(database):
    dsn = database()
    owner, member = make_owner(dsn, "owns_box", "joins_owner")
    sq.MessageBox.migrate(owner)
    with psycopg.connect(dsn) as connection:
        connection.execute("GRANT owns_box TO joins_owner WITH SET FALSE")
    with pytest.raises(sq.EnvironmentProblem, match='permission denied to set role "owns_box"'):
        sq.MessageBox.migrate(member)


def test_a_migration_waits_for_who_uses_the_box_and_holds_nobody_up_for_long(own, monkeypatch, caplog):
    """A long handler: meanwhile others publish, and the log says who it is."""
    with newer(monkeypatch, functions=[VERSION]), own.session() as handler, ThreadPoolExecutor(1) as threads:
        own_pid = handler.connection.info.backend_pid
        handler.publish(sq.Message(type="t"))
        migration = threads.submit(sq.MessageBox.migrate, own.dsn)
        while f"waits for process {own_pid} of the role 'seriatim'" not in caplog.text:
            own.publish(sq.Message(type="t"))
            assert not migration.done()
        own.publish(sq.Message(type="t"))
        handler.connection.rollback()
        assert migration.result() == []


def test_a_migration_waits_for_who_reads_a_view(own, monkeypatch):
    at_once_s = 0.1
    monkeypatch.setattr(migration_locks, "_AT_ONCE_S", at_once_s)
    with newer(monkeypatch, views=[TYPES]), psycopg.connect(own.dsn) as reader, ThreadPoolExecutor(1) as threads:
        reader.execute("SELECT FROM seriatim.message_types")
        migration = threads.submit(sq.MessageBox.migrate, own.dsn)
        wait_until_blocked(own.dsn, by=reader)
        until = time.monotonic() + 3 * at_once_s
        while time.monotonic() < until:
            assert not migration.done()
        reader.rollback()
        assert migration.result() == []


def test_a_migration_that_waits_too_long_says_for_whom(own, monkeypatch):
    with newer(monkeypatch, functions=[VERSION]), own.session() as handler:
        handler.publish(sq.Message(type="t"))
        pid = handler.connection.info.backend_pid
        with pytest.raises(sq.Unavailable, match=f"while it is used by process {pid}"):
            sq.MessageBox.migrate(f"{own.dsn}&options=-clock_timeout%3D50ms")
    assert definition(own, "schema_version") == [("", "integer")]


# ---- the texts


def test_each_function_and_view_is_what_its_file_says(own):
    """By PostgreSQL's own word: made from its file once more, nothing of the catalogue changes."""
    stored = {one.name: one for one in routines()}
    with psycopg.connect(own.dsn) as connection:
        rows = connection.execute(
            "SELECT proname, prosrc, prosqlbody IS NOT NULL, pg_get_functiondef(oid) FROM pg_proc"
            " WHERE pronamespace = 'seriatim'::regnamespace"
        ).fetchall()
        views = connection.execute("SELECT viewname FROM pg_views WHERE schemaname = 'seriatim'").fetchall()
        assert {name for name, *_ in rows} | {name for (name,) in views} == stored.keys()
        for name, body, is_parsed, whole in rows:
            one = stored[name]
            assert one.is_parsed == is_parsed
            if not is_parsed:
                text = for_schema(one.text, "seriatim").decode()
                assert f"$function${body}$function$;" in text, name
            attributes = one.text[len("CREATE OR REPLACE FUNCTION {schema}.") + len(name) + len(one.head) :]
            assert ("SECURITY DEFINER" in whole) == ("SECURITY DEFINER" in attributes.partition("AS $")[0]), name


def test_every_function_compiles(own):
    """With the checks that are off while they are made: all that they call is there by then."""
    with psycopg.connect(own.dsn) as connection:
        connection.execute("SET check_function_bodies = on")
        for one in routines():
            connection.execute(for_schema(one.text, "seriatim"))
        connection.rollback()
