"""Which pipelines go from text to packets in one stage, and what is computed there as Spark computes it."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F

from seriatim.cli.main import main
from seriatim.pipeline.files.pipeline_file import load
from seriatim.spark.front.chosen import why_apart
from seriatim.spark.front.places import bucket_numbers

FILE = """
name: orders
checkpoint: checkpoint
{more}
receive:
  - location: crm
    source: {{format: json, path: inbox}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}, at: {{path: $.at, type: timestamp}}, price: {{path: $.price, type: double}}}}
    {location}
{process}
route:
  - to: all
    {route}
    resequence: {{{resequence}}}
    deliver: {{format: json, path: out}}
"""
PLAIN = "policy: standard, group: customer, sequence: version"
CODE = "def work(one):\n    return one\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def declared(folder, resequence=PLAIN, more="", location="", process="", route=""):
    (folder / "inbox").mkdir(exist_ok=True)
    module = own(folder)
    (folder / f"{module}.py").write_text(CODE)
    file = folder / "pipeline.yaml"
    text = FILE.format(more=more, location=location, process=process, route=route, resequence=resequence)
    file.write_text(text.replace("own:", f"{module}:"))
    return load(file)


def own(folder):
    """A process has only one module of a name."""
    return f"own_{folder.name}"


ONE_STAGE = [
    {},
    {"resequence": "policy: fifo, group: {by: customer, default: none}"},
    {"resequence": "policy: fifo, group: version"},
    {"resequence": "policy: unordered"},
    {"resequence": "policy: best_effort, by: time, group: customer, sequence: at, window: 1s"},
    {"resequence": "policy: unit_of_work, group: customer, sequence: version, size: version, timeout: 1s"},
    {"resequence": "policy: unit_of_work, group: customer, sequence: version, last: price > 1, timeout: 1s"},
    {"resequence": "policy: fifo, group: {by: customer, opens: version = 1, closes: price > 3}"},
    {"route": "where: price > 1 AND at IS NOT NULL AND received_at IS NOT NULL"},
    {"location": "stamp: {last_number: 9}"},
    {"location": "split: $.lines"},
    {"more": "arrival: version"},
]
APART = [
    ({"more": "clock: event\ntime: at"}, "it has the event clock"),
    ({"process": "process: {function: 'own:work'}"}, "own:work works on its messages before they are routed"),
    (
        {"route": "process: {function: 'own:work'}"},
        "own:work works on the messages of destination 'all' before they are put in order",
    ),
    ({"location": "split: {function: 'own:work'}"}, "own:work reads the messages of location 'crm'"),
    ({"location": "stamp: {order_by: [version]}"}, "location 'crm' is ordered by version"),
    ({"route": "where: ticket > 3"}, "destination 'all' looks at tickets, which messages get later"),
    ({"route": "where: epoch = 0"}, "destination 'all' looks at tickets, which messages get later"),
    (
        {"resequence": "policy: fifo, group: {by: customer, opens: ticket = 1}"},
        "destination 'all' looks at tickets, which messages get later",
    ),
    (
        {"resequence": "policy: standard, group: customer, sequence: ticket"},
        "destination 'all' is in order of ticket, which is no long",
    ),
    (
        {"resequence": "policy: fifo, group: price"},
        "destination 'all' has groups by price, which is neither text nor a long",
    ),
    ({"resequence": f"{PLAIN}, compare: price"}, "destination 'all' compares messages that come again"),
    ({"resequence": f"{PLAIN}, remember: 10"}, "destination 'all' compares messages that come again"),
]


@pytest.mark.parametrize("given", ONE_STAGE)
def test_one_stage(given, tmp_path):
    assert why_apart(declared(tmp_path, **given)) is None


@pytest.mark.parametrize(("given", "reason"), APART)
def test_stages_of_their_own(given, reason, tmp_path):
    assert why_apart(declared(tmp_path, **given)) == reason.replace("own:", f"{own(tmp_path)}:")


def test_a_run_says_which_way_and_why(tmp_path):
    file = declared(tmp_path).source_file
    done = CliRunner().invoke(main, ["run", str(file), "--explain"])
    assert (done.exit_code, done.stdout) == (0, "orders: messages are read, stamped and routed in one stage\n")
    declared(tmp_path, route="where: ticket > 3")
    done = CliRunner().invoke(main, ["run", str(file), "--explain"])
    assert (done.exit_code, done.stdout) == (
        0,
        (
            "orders: messages are read, stamped and routed in stages of their own\n"
            "  because destination 'all' looks at tickets, which messages get later\n"
        ),
    )
    done = CliRunner().invoke(main, ["run", str(file), "--explain", "--json"])
    reason = "destination 'all' looks at tickets, which messages get later"
    assert json.loads(done.stdout) == {"pipeline": "orders", "one_stage": False, "reason": reason}
    assert not (tmp_path / "checkpoint").exists()


def test_buckets_are_those_of_spark(spark):
    chance = random.Random(5)
    keys = [b"", b"a", "ü😀".encode(), *(chance.randbytes(size) for size in range(100)), b"x" * 5000, None]
    for buckets in (1, 3, 16, 1000):
        found = bucket_numbers(pa.array(keys, pa.binary()), buckets).tolist()
        frame = spark.createDataFrame([(n, key) for n, key in enumerate(keys)], "n int, key binary").coalesce(1)
        number = F.pmod(F.xxhash64(F.lit(""), "key"), F.lit(buckets))
        assert found == [row.number for row in frame.select("n", number.alias("number")).orderBy("n").collect()]
