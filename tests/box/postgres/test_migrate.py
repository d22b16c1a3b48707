"""The schema: made at once or in steps it is the same; an older or newer one is refused with what helps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

import seriatim as sq
from seriatim.box.postgres.migrate import fresh_sql, functions, migrate, migrations
from seriatim.box.postgres.statements import Statements, script
from tests.box.schema_text import schema_text


@pytest.fixture
def database(databases):
    """Makes databases of their own."""
    with ExitStack() as made:
        yield lambda: made.enter_context(databases.clone())


def test_made_at_once_in_steps_or_by_hand_it_is_the_same(database):
    fresh, stepped, by_hand = database(), database(), database()
    sq.MessageBox.open(fresh).close()
    first, rest = migrations()[:5], migrations()[5:]
    with psycopg.connect(stepped) as connection:
        for one in first:
            connection.execute(script(one.path, "seriatim"))
            connection.execute("INSERT INTO seriatim.migrations (number, name) VALUES (%s, %s)", [one.number, one.name])
    with pytest.raises(sq.SchemaMismatch, match="has version 5"):
        sq.MessageBox.open(stepped)
    assert tuple(sq.MessageBox.migrate(stepped)) == rest
    with psycopg.connect(by_hand, autocommit=True) as connection:
        connection.execute(fresh_sql("seriatim"))
    assert schema_text(fresh) == schema_text(stepped) == schema_text(by_hand)
    with sq.MessageBox.open(by_hand) as box:  # the record is there, too
        assert box.status().version == migrations()[-1].number


def test_the_numbers_of_the_migrations():
    numbers = [one.number for one in migrations()]
    assert numbers == sorted(set(numbers))


def test_again_it_changes_nothing(box):
    with psycopg.connect(box.dsn) as connection:
        assert migrate(Statements(connection, box.schema)) == []
    assert sq.MessageBox.migrate(box.dsn, schema=box.schema) == []


def test_by_several_at_once_it_is_made_once(box):
    schema = f"{box.schema}_at_once"
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: sq.MessageBox.migrate(box.dsn, schema=schema), range(8)))
    assert sorted(map(len, made)) == [0] * 7 + [len(migrations())]


@pytest.mark.parametrize(
    ("change", "version", "helps"), [("- 1000", "-", "seriatim box migrate"), ("+ 1000", "1", "pip install --upgrade")]
)
def test_another_version_is_refused_with_what_helps(box, change, version, helps):
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.migrations SET number = number {change}")
    with pytest.raises(sq.SchemaMismatch, match=f"has version {version}") as caught:
        sq.MessageBox.open(box.dsn, schema=box.schema)
    assert helps in caught.value.remedy
    assert box.schema in str(caught.value)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            "UPDATE {}.migrations SET checksum = 'other' WHERE number = 3",
            "migration 0003 (queues) was another text there",
        ),
        ("DELETE FROM {}.migrations WHERE number = 3", "a migration 0003, which was not applied there"),
        ("INSERT INTO {}.migrations VALUES (0, 'before')", "a migration 0000, which this one hasn't"),
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


def test_one_that_lacks_functions_is_refused_with_their_names(box):
    with box.session() as tx:
        rows = tx.connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace", [box.schema]
        ).fetchall()
        assert {name for (name,) in rows} == set(functions())
        tx.connection.execute(f"DROP FUNCTION {box.schema}.hand_out, {box.schema}.complete")
    for call in (sq.MessageBox.open, sq.MessageBox.migrate, sq.MessageBox.check):
        with pytest.raises(
            sq.SchemaMismatch, match=r"lacks functions of its version \d+: complete, hand_out"
        ) as caught:
            call(box.dsn, schema=box.schema)
        assert "restore the box from a backup" in caught.value.remedy


def test_one_without_a_checksum_is_looked_at_by_a_migration(box):
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.migrations SET checksum = NULL WHERE number < 5")
    with pytest.raises(sq.SchemaMismatch, match="doesn't say what its migrations were") as caught:
        sq.MessageBox.open(box.dsn, schema=box.schema)
    assert "seriatim box migrate" in caught.value.remedy
    assert sq.MessageBox.migrate(box.dsn, schema=box.schema) == []
    sq.MessageBox.open(box.dsn, schema=box.schema).close()


def test_who_holds_a_migration_up_is_named(box):
    """Whoever may log in can take that lock."""
    with psycopg.connect(box.dsn) as holder:
        holder.execute("SELECT pg_advisory_lock(hashtextextended('seriatim:' || %s, 0))", [box.schema])
        dsn = f"{box.dsn}&options=-clock_timeout%3D50ms"
        with pytest.raises(
            sq.Unavailable, match=f"process {holder.info.backend_pid} of the role 'seriatim' has the lock"
        ):
            sq.MessageBox.migrate(dsn, schema=box.schema)


def test_a_newer_one_is_not_migrated(box):
    with box.session() as tx:
        tx.connection.execute(f"INSERT INTO {box.schema}.migrations VALUES (9999, 'of the future')")
    with pytest.raises(sq.SchemaMismatch, match="has version 9999"):
        sq.MessageBox.migrate(box.dsn, schema=box.schema)


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
