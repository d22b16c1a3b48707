"""The journal's schema: made at first use, plain SQL only, and refused where it doesn't fit."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from importlib import resources

import psycopg
import pytest

from seriatim.box.postgres.statements import files, statement
from seriatim.errors import EnvironmentProblem, SchemaMismatch, Unavailable, UsageError
from seriatim.regions.journal import schema
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.locked import Session
from tests.regions.journal.given import NAME, QUEUE, asked, claimed

#: What other databases that speak PostgreSQL's protocol don't have.
_NOT_PLAIN = re.compile(
    r"\b(pg_\w+|LISTEN|NOTIFY|plpgsql|CREATE (OR REPLACE )?(FUNCTION|PROCEDURE|TRIGGER|EXTENSION)|TEMP|TEMPORARY|UNLOGGED|DO \$|"
    r"SKIP LOCKED|NOWAIT|DEFERRABLE|EXCLUDE|MERGE INTO|DECLARE|CURSOR|ctid|txid\w*|xmin)\b",
    re.IGNORECASE,
)
_CHANGES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+here\.(\w+)", re.IGNORECASE)


PACKAGE = "seriatim.regions.journal"


@pytest.mark.parametrize("name", sorted(files(PACKAGE)))
def test_a_statement_is_plain_sql_and_changes_a_table_once(name):
    text = statement(name, "here", package=PACKAGE).decode().replace('"here"', "here")
    assert not _NOT_PLAIN.findall(text)
    assert ";" not in text
    changed = _CHANGES.findall(text)
    assert len(changed) == len(set(changed)) <= (2 if name == "claim_quickly" else 1)


def test_each_statement_says_what_it_is_for_and_is_called():
    folder = resources.files("seriatim.regions.journal")
    source = "".join(file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".py"))
    for name in files(PACKAGE):
        text = folder.joinpath(f"sql/{name}.sql").read_text(encoding="utf-8")
        assert re.match(r"-- .+\.\n", text), name
        assert f'"{name}"' in source, name


def test_no_index_has_what_each_message_changes(journal, journal_dsn):
    with psycopg.connect(journal_dsn) as connection:
        found = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'seriatim_journal' AND tablename = 'sessions'"
        ).fetchall()
    assert [re.findall(r"\(([^)]*)\)", one) for (one,) in found] == [["name, queue, session"]]


def test_the_schema_is_plain_sql():
    for text in schema.scripts().values():
        assert not _NOT_PLAIN.findall(text)
    assert list(schema.scripts()) == list(range(schema.BASELINE, schema.newest() + 1))


def test_a_journal_of_the_version_before_the_baseline_is_taken_over(journal, journal_dsn):
    claimed(journal, "a", asked("s", 1, 2))
    with psycopg.connect(journal_dsn) as connection:
        connection.execute("UPDATE seriatim_journal.journal SET version = %s", [schema.BASELINE - 1])
    with pytest.raises(SchemaMismatch, match=f"works with {schema.newest()}"):
        Journal.open(journal_dsn, create=False)
    with Journal.open(journal_dsn) as opened:
        assert [one.session for one in opened.sessions()] == ["s"]
    Journal.open(journal_dsn, create=False).close()
    with psycopg.connect(journal_dsn) as connection:
        connection.execute("UPDATE seriatim_journal.journal SET version = 2")
    with pytest.raises(SchemaMismatch, match="has version 2") as caught:
        Journal.open(journal_dsn)
    assert "commit 8473f540" in caught.value.remedy


def test_what_is_read_and_written_for_a_claim_is_found_by_its_key(journal):
    """On tables that nothing was told of, where the planner guesses."""
    claimed(journal, "a", [one for at in range(200) for one in asked(f"s{at}", 1, 2)])
    columns = [one.name for one in fields(Session) if one.name != "session"]
    given = {
        "read_entries": {"sessions": "{s7}", "asked": "{s7}", "numbers": "{2}"},
        "write_sessions": {"session": "{s7}"} | dict.fromkeys(columns, "{1}"),
        "lock_sessions": {"sessions": "{s7}"},
    }
    with journal.transaction() as tx:
        for name, parameters in given.items():
            text = b"EXPLAIN (ANALYZE, COSTS OFF) " + statement(name, "seriatim_journal", package=PACKAGE)
            told = "".join(row[0] for row in tx.connection.execute(text, {"name": NAME, "queue": QUEUE, **parameters}))
            assert "Rows Removed" not in told, told
            assert "Seq Scan on sessions" not in told
        tx.connection.rollback()


def test_processes_that_open_a_new_journal_at_once_find_one(databases):
    with databases.clone(databases.template("empty", lambda dsn: None)) as dsn:
        with ThreadPoolExecutor(4) as threads:
            opened = list(threads.map(lambda _: Journal.open(dsn), range(4)))
        for one in opened:
            one.close()
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT count(*), max(version) FROM seriatim_journal.journal").fetchone() == (
                1,
                schema.newest(),
            )


def test_a_schema_that_doesnt_fit_is_refused(journal_dsn):
    with pytest.raises(SchemaMismatch, match="no journal in the schema other"):
        Journal.open(journal_dsn, schema="other", create=False)
    with psycopg.connect(journal_dsn) as connection:
        connection.execute("CREATE SCHEMA other")
    with pytest.raises(SchemaMismatch, match="it is no journal"):
        Journal.open(journal_dsn, schema="other")
    with psycopg.connect(journal_dsn) as connection:
        connection.execute("UPDATE seriatim_journal.journal SET version = 99")
    with pytest.raises(SchemaMismatch, match="has version 99"):
        Journal.open(journal_dsn)


def test_a_role_without_rights_is_told(journal_dsn):
    with psycopg.connect(journal_dsn) as connection:
        connection.execute("CREATE ROLE reader_of_the_journal LOGIN")
    theirs = psycopg.conninfo.make_conninfo(journal_dsn, user="reader_of_the_journal")
    with pytest.raises(EnvironmentProblem, match="may not"):
        Journal.open(theirs, schema="new")
    with pytest.raises(EnvironmentProblem, match=r"GRANT|right"):
        Journal.open(theirs)


def test_a_journal_that_cant_be_reached_is_unavailable():
    with pytest.raises(Unavailable, match="can't be reached"):
        Journal.open("host=127.0.0.1 port=1 dbname=none user=none", patience=2)
    with pytest.raises(UsageError, match="not a DSN"):
        Journal.open(None)


def test_a_connection_that_broke_is_replaced(journal):
    with pytest.raises(Unavailable), journal.transaction() as tx:
        tx.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert journal.sessions() == []


def test_transactions_that_collide_are_repeated(journal):
    begun = []

    def work(statements):
        begun.append(statements)
        if len(begun) < 3:
            raise psycopg.errors.SerializationFailure
        return "done"

    assert (journal._connections.again(work), len(begun)) == ("done", 3)


def test_a_journal_that_is_closed_is_refused(journal_dsn):
    with Journal.open(journal_dsn) as opened:
        pass
    with pytest.raises(UsageError, match="is closed"):
        opened.sessions()
