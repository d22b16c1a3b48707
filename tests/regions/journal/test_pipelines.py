"""Pipelines in a journal: one run at a time has the lease, what it delivers is noted, and a table gets it in the same transaction."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from seriatim.errors import EnvironmentProblem, LeaseLost, SchemaMismatch, Unavailable, UsageError
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.pipelines import OutputTable, PipelineClaim, PipelineView
from tests.regions.journal.given import NAME, let_pass

TABLE = OutputTable(
    "out.parcels",
    {
        "group": "text",
        "sequence": "bigint",
        "at": "timestamptz",
        "price": "decimal(8,2)",
        "late": "boolean",
        "body": "bytea",
    },
)


@pytest.fixture
def table(journal):
    with journal.transaction() as tx:
        tx.connection.execute("CREATE SCHEMA out")
        tx.connection.execute(TABLE.made_by)
    return TABLE


def claim(journal, region="a", **options):
    return journal.pipelines.claim("status", region, f"host of {region}", lease=100.0, **options)


def rows(*numbers, group="p"):
    many = len(numbers)
    return {
        "group": [group] * many, "sequence": list(numbers), "at": [None] * many, "price": [None] * many,
        "late": [False] * many, "body": [b"\0\xff"] * many,
    }  # fmt: skip


def numbers(journal):
    with journal.transaction() as tx:
        return [one for (one,) in tx.connection.execute('SELECT sequence FROM out.parcels ORDER BY "group", sequence')]


def test_one_run_has_the_lease_until_it_gives_it_back(journal):
    held = claim(journal)
    assert isinstance(held, PipelineClaim)
    other = claim(journal, "b")
    assert isinstance(other, PipelineView)
    assert (other.region, other.holder, other.is_over, other.take_overs) == ("a", "host of a", False, 0)
    assert journal.pipelines.renew(held)
    journal.pipelines.give_back(held)
    after = claim(journal, "b")
    assert after.token > held.token
    assert not journal.pipelines.renew(held)
    journal.pipelines.give_back(held)  # it is another's, and stays
    (seen,) = journal.pipelines.known()
    assert (seen.region, seen.take_overs, seen.version) == ("b", 0, after.token.version)


def test_a_lease_that_is_over_is_taken_over_and_its_holder_can_deliver_nothing_more(journal, table):
    frozen = claim(journal)
    journal.pipelines.deliver(frozen, "parcels", {"p": 1}, table=table, rows=rows(1))
    let_pass(journal, 101)
    assert journal.pipelines.known("status")[0].is_over
    taken = claim(journal, "b")
    assert isinstance(taken, PipelineClaim)
    with pytest.raises(LeaseLost, match="another region delivers"):
        journal.pipelines.deliver(frozen, "parcels", {"p": 2}, table=table, rows=rows(2))
    assert numbers(journal) == [1]
    assert journal.pipelines.through("status", "parcels", ["p", "q"]) == {"p": 1}
    journal.pipelines.deliver(taken, "parcels", {"p": 2}, table=table, rows=rows(2))
    assert numbers(journal) == [1, 2]
    assert journal.pipelines.known("status")[0].take_overs == 1


def test_a_run_whose_clock_has_ended_its_claim_gets_another_one_at_once(journal):
    former = claim(journal)
    assert isinstance(claim(journal), PipelineView)
    again = claim(journal, former=former)
    assert again.token > former.token
    assert journal.pipelines.known("status")[0].take_overs == 0


def test_of_runs_that_ask_at_once_one_gets_the_lease(journal):
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: claim(journal, "ab"[n % 2]), range(4)))
    assert sum(isinstance(one, PipelineClaim) for one in found) == 1


def test_what_is_delivered_never_goes_back_and_counts_for_its_destination_only(journal):
    held = claim(journal)
    journal.pipelines.deliver(held, "parcels", {"p": 5, "q": 1})
    journal.pipelines.deliver(held, "parcels", {"p": 3, "r": -4})
    assert journal.pipelines.through("status", "parcels", ["p", "q", "r"]) == {"p": 5, "q": 1, "r": -4}
    assert journal.pipelines.through("status", "others", ["p"]) == {}
    assert journal.pipelines.through("another", "parcels", ["p"]) == {}
    many = {f"g{n}": n for n in range(12_000)}  # more than a statement asks for
    journal.pipelines.deliver(held, "many", many)
    assert journal.pipelines.through("status", "many", list(many)) == many


def test_a_table_gets_values_of_all_types_or_nothing(journal, table):
    from datetime import UTC, datetime
    from decimal import Decimal

    held = claim(journal)
    at = datetime(2026, 11, 28, 1, 2, 3, 4, tzinfo=UTC)
    given = {
        "group": ['a,"b"\\', "ü"], "sequence": [1, 2], "at": [at, None], "price": [Decimal("1.50"), None],
        "late": [True, None], "body": [None, b"\\x00'"],
    }  # fmt: skip
    journal.pipelines.deliver(held, "parcels", {"x": 1}, table=table, rows=given)
    with journal.transaction() as tx:
        found = tx.connection.execute("SELECT * FROM out.parcels ORDER BY sequence").fetchall()
        assert found == [tuple(column[n] for column in given.values()) for n in range(2)]
        tx.connection.execute("ALTER TABLE out.parcels ADD CHECK (sequence < 9)")
    with pytest.raises(UsageError, match="check constraint"):
        journal.pipelines.deliver(held, "parcels", {"x": 9}, table=table, rows=rows(8, 9))
    assert journal.pipelines.through("status", "parcels", ["x"]) == {"x": 1}
    with pytest.raises(SchemaMismatch, match="a column 'gone'"):
        journal.pipelines.deliver(held, "parcels", {"x": 3}, table=table, rows={**rows(3), "gone": ["x"]})
    assert len(numbers(journal)) == 2


def test_a_table_that_doesnt_fit_is_told_with_what_helps(journal, table, journal_dsn):
    journal.pipelines.check_table(table)
    with pytest.raises(SchemaMismatch, match="no such table") as told:
        journal.pipelines.check_table(OutputTable("nowhere.parcels", {"group": "text"}))
    assert told.value.remedy == 'CREATE TABLE nowhere.parcels ("group" text)'
    with pytest.raises(SchemaMismatch, match="it has no column region, parcel") as told:
        journal.pipelines.check_table(
            OutputTable("out.parcels", {"region": "text", "late": "boolean", "parcel": "text"})
        )
    assert told.value.remedy == 'ALTER TABLE out.parcels ADD COLUMN "region" text, ADD COLUMN "parcel" text'
    with pytest.raises(SchemaMismatch, match='"body" is of type bytea but expression is of type text'):
        journal.pipelines.check_table(OutputTable("out.parcels", {"body": "text"}))
    with psycopg.connect(journal_dsn) as connection:
        connection.execute("CREATE ROLE runs_a_pipeline LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA seriatim_journal, out TO runs_a_pipeline")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA seriatim_journal TO runs_a_pipeline")
    theirs = psycopg.conninfo.make_conninfo(journal_dsn, user="runs_a_pipeline")
    with (
        Journal.open(theirs, create=False) as opened,
        pytest.raises(EnvironmentProblem, match="permission denied") as told,
    ):
        opened.pipelines.check_table(table)
    assert told.value.remedy == "GRANT INSERT ON out.parcels"
    with psycopg.connect(journal_dsn) as connection:
        connection.execute("DROP OWNED BY runs_a_pipeline")
        connection.execute("DROP ROLE runs_a_pipeline")


def test_a_recovery_ends_the_leases_of_pipelines(journal):
    held = claim(journal)
    assert journal.recover(NAME, {}, actor="ann", reason="restored").stopped == 1
    with pytest.raises(LeaseLost):
        journal.pipelines.deliver(held, "parcels", {"p": 1})
    after = claim(journal, "b")
    assert after.token > held.token
    assert after.token.incarnation == held.token.incarnation + 1


def test_a_group_that_begins_anew_is_delivered_from_its_first_number_again(journal):
    held = claim(journal)
    journal.pipelines.deliver(held, "parcels", {"p": 7, "q": 3})
    journal.pipelines.deliver(held, "audit", {"p": 9})
    found = journal.pipelines.delivered("status")
    assert [(one.destination, one.group, one.through) for one in found] == [
        ("audit", "p", 9), ("parcels", "p", 7), ("parcels", "q", 3),
    ]  # fmt: skip
    assert journal.pipelines.delivered("status", destination="parcels", limit=1) == found[1:2]
    assert journal.pipelines.delivered("status", group="p") == found[:2]
    assert journal.pipelines.delivered("other") == []
    assert journal.pipelines.forget_delivered("status", "parcels", "p", actor="ann", reason="begun anew") == found[1]
    assert journal.pipelines.through("status", "parcels", ["p", "q"]) == {"q": 3}
    (logged,) = journal.log(name="status")
    assert (logged.action, logged.queue, logged.session) == ("forget delivered", "parcels", "p")
    assert (logged.actor, logged.reason, logged.detail) == ("ann", "begun anew", "it was delivered through 7")
    with pytest.raises(UsageError, match="nothing of a group 'p' is delivered to 'parcels'"):
        journal.pipelines.forget_delivered("status", "parcels", "p", actor="ann", reason="again")
    assert len(journal.log(name="status")) == 1


def test_a_connection_that_breaks_in_the_midst_has_written_nothing(journal, table):
    held = claim(journal)
    with journal.transaction() as tx:
        tx.connection.execute(
            "CREATE FUNCTION out.breaks() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN new; END'"
        )
        tx.connection.execute(
            "CREATE TRIGGER breaks BEFORE INSERT ON out.parcels FOR EACH ROW EXECUTE FUNCTION out.breaks()"
        )
    with pytest.raises(Unavailable):
        journal.pipelines.deliver(held, "parcels", {"p": 1}, table=table, rows=rows(1))
    assert journal.pipelines.through("status", "parcels", ["p"]) == {}
    assert numbers(journal) == []


def test_a_delivery_that_is_given_up_is_cancelled(journal, table, journal_dsn, monkeypatch):
    held = claim(journal)
    monkeypatch.setattr("seriatim.regions.journal.pipelines._WRITING_S", 1.0)
    monkeypatch.setattr(journal.pipelines._connections, "patience", 1.0)
    with psycopg.connect(journal_dsn) as locking:
        locking.execute("LOCK TABLE out.parcels")
        with pytest.raises(Unavailable, match="hasn't answered for 1 s"):
            journal.pipelines.deliver(held, "parcels", {"p": 1}, table=table, rows=rows(1))
    with psycopg.connect(journal_dsn) as locking:
        locking.execute("LOCK TABLE out.parcels")  # it has ended
        assert locking.execute("SELECT count(*) FROM out.parcels").fetchone() == (0,)


def test_more_is_delivered_at_once_than_a_socket_takes(journal, table):
    held = claim(journal)
    many = rows(*range(1, 3_001))
    many["body"] = [b"x" * 2_000] * 3_000
    journal.pipelines.deliver(held, "parcels", {f"{n:0500}": 1 for n in range(3_000)}, table=table, rows=many)
    assert len(numbers(journal)) == 3_000
