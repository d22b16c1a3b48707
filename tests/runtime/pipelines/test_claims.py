"""One pipeline that runs in two regions, with a checkpoint each: the run that has the lease delivers into a table of the journal's database."""

from __future__ import annotations

import json
import threading

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.errors import SchemaMismatch
from seriatim.operations.pipelines.pipelines import counts_of
from seriatim.pipeline.files.pipeline_file import load
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.pipelines import PipelineClaim
from seriatim.runtime.pipelines.lease import output_table
from seriatim.runtime.pipelines.progress import LeaseState
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.stop_signal import Stop
from seriatim.spark.deliver.targets import SparkSink
from tests.regions.journal.given import let_pass
from tests.runtime.pipelines.test_lease import Run
from tests.runtime.pipelines.test_regions import OF_REGION, put

FILE = """\
name: status
checkpoint: {folder}/checkpoint-{region}
buckets: 2
trigger: 0s
claims: journal
journal: {{dsn: "${{JOURNAL}}", region: {region}, lease: 20s}}
box: {{dsn: "${{JOURNAL}}", schema: {schema}}}
receive:
{receive}route:
  - to: parcels
    resequence: {{policy: standard, group: parcel, sequence: number}}
    deliver: {{format: table, table: parcels}}
{more}"""
QUEUE = """\
  - to: copies
    resequence: {policy: standard, group: parcel, sequence: number}
    deliver: {queue: copies}
"""

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def journal(box, monkeypatch):
    monkeypatch.setenv("JOURNAL", box.dsn)
    with Journal.open(box.dsn) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path


def pipeline(folder, region, *, schema="none", more=""):
    path = folder / f"in-{region}.yaml"
    receive = "".join(OF_REGION.format(folder=folder, region=name) for name in ("a", "b"))
    path.write_text(FILE.format(folder=folder, region=region, receive=receive, schema=schema, more=more))
    return load(path)


def in_table(journal):
    with journal.transaction() as tx:
        return tx.connection.execute('SELECT "group", sequence, number, id FROM parcels ORDER BY place').fetchall()


def whole(last):
    return [("p", n, n, f"p-{n}") for n in range(1, last + 1)]


def define_copies(box):
    box.define(
        sq.MessageType("copies", properties={"parcel": "string", "number": "long", "id": "string", "region": "string"}),
        sq.Queue("copies", policy=sq.Standard(), group="parcel", sequence="number"),
    )


def copies(box):
    """The ids of the messages in the queue, which come in the order of their numbers."""
    with box.session() as tx:
        delivery = tx.receive("copies", limit=10)
        found = [(one.sequence, one.context["id"]) for one in delivery]
    with box.session() as tx:
        assert tx.receive("copies") is None
    return found


def test_one_output_for_both_regions(folder, journal, box):
    """A table, and a queue of a message box, which gets the numbers."""
    define_copies(box)
    a, b = (pipeline(folder, region, schema=box.schema, more=QUEUE) for region in "ab")
    put(folder, "a", 1, 2, 1, 3)
    with pytest.raises(SchemaMismatch, match="no such table") as told:
        run(a, once=True)
    with journal.transaction() as tx:
        tx.connection.execute(told.value.remedy)
        tx.connection.execute("ALTER TABLE parcels ADD COLUMN place serial")
    assert told.value.remedy == output_table(a, "parcels").made_by

    # Region a delivers, and ends.
    news = []
    done = run(a, once=True, tell=news.append)
    assert (done.undelivered, done.accounts[0].released) == (0, 3)
    assert [one.in_words for one in news if isinstance(one, LeaseState)] == ["active in region a"]
    assert in_table(journal) == whole(3)
    assert journal.pipelines.known("status")[0].region is None

    def through(destination):
        return journal.pipelines.through("status", destination, ["p"]).get("p")

    # It has the lease again and is frozen: region b orders along, and keeps what isn't delivered, in a run that goes on.
    frozen = journal.pipelines.claim("status", "a", "a host", lease=20)
    assert isinstance(frozen, PipelineClaim)
    put(folder, "b", 1, 1, 2, 3, 4, 5)
    stop, seen, lost = Stop(), [], threading.Event()

    def follow(news):
        if isinstance(news, LeaseState):
            seen.append(news.in_words.partition(" until ")[0])

    def looked():
        """Time passes when the run has released what there is, and stands by; it is stopped when it has delivered that."""
        counts = [one.released for one in counts_of(folder / "in-b.yaml").destinations]
        if lost.is_set():
            stop.request() if in_table(journal) == whole(5) and through("copies") == 5 else None
        elif counts == [5, 5]:
            shown = CliRunner().invoke(main, ["pipeline", "show", "--json", str(folder / "in-b.yaml")])
            lease = json.loads(shown.stdout)["lease"]
            assert (lease["state"], lease["holder_region"], lease["holder"]) == ("passive", "a", "a host")
            assert in_table(journal) == whole(3)
            let_pass(journal, 21)
            lost.set()

    done = run(b, tell=follow, looked=looked, stop=stop)
    assert seen == ["passive: region a has the lease", "active in region b"]
    assert not journal.pipelines.renew(frozen)
    assert done.accounts[0].released == 5

    # Region a comes back, and finds that all is delivered.
    done = run(a, once=True)
    assert (done.undelivered, done.accounts[0].released) == (0, 2)
    assert in_table(journal) == whole(5)

    assert copies(box) == [(n, f"p-{n}") for n in range(1, 6)]

    told = CliRunner().invoke(main, ["check", str(folder / "in-b.yaml")])
    assert told.exit_code == 0, told.output
    assert "claims   journal: this run is in region b, lease 20 s" in told.output
    assert "deliver  parcels: standard, table parcels of the journal's database, exactly once" in told.output
    assert "deliver  copies: standard, queue copies of the message box, at least once" in told.output


def test_a_sink_of_spark_gets_what_the_other_run_hasnt_delivered(folder, journal, spark):
    first, second = (
        Run(journal, region, folder, SparkSink(spark, "json", folder / "out", {}, by_number=True)) for region in "ab"
    )
    first.batch(("p", 1), ("q", 1))
    second.batch(("p", 1), ("p", 2), ("q", 1), ("q", 2), ("q", 3))
    first.carry()
    first.lease.end()
    second.lease.ask()
    second.carry()
    assert second.waiting is None
    found = spark.read.json(str(folder / "out")).select("group", "sequence").collect()
    assert sorted(map(tuple, found)) == [("p", 1), ("p", 2), ("q", 1), ("q", 2), ("q", 3)]
    # In a topic readers know a message by its group and number.
    second.batch(("p", 3))
    kafka = SparkSink(spark, "kafka", None, {}, by_number=True)
    (batch,) = second.outgoing._outbox.kept
    (record,) = kafka.rows(second.outgoing._outbox.port.folder(batch.batch)).collect()
    assert (record.key, {one.key: bytes(one.value) for one in record.headers}) == ("p", {"sequence": b"3"})
