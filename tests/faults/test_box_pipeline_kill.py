"""SIGKILL to a pipeline that reads one queue of a box and fills another: each message is there once, in order.

Its DSN has a password, which is to be found nowhere afterwards.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict

import pytest

import seriatim as sq
from seriatim.box.server.binaries import find_binaries
from tests.faults.process import running
from tests.faults.watch import GROUPS, MESSAGES, Watch, publish_backwards
from tests.soak import full

PASSWORD = "hush-hush-4711"

FILE = """
name: through
checkpoint: checkpoint
buckets: 2
trigger: 0s
box: {{dsn: "${{ORDERS_DSN}}", schema: {schema}}}
spark: {{spark.master: "local[2]", spark.sql.shuffle.partitions: 2}}
receive:
  - queue: orders
    options: {{maxMessagesPerTrigger: 150}}
    promote: {{customer: customer, version: {{path: version, type: long}}, shown: {{path: ordinal, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: shown}}
    deliver: {{queue: done}}
"""


def moments(watch, waiting):
    """When to kill: at each moment once, or at one of them again."""
    before = watch.last("commits")

    def reading(_run):
        """A batch has begun."""
        return watch.last("offsets") > max(watch.last("commits"), before + 1)

    def merged(_run):
        """A batch is in the box, and still waits in the checkpoint."""
        waits = list(waiting.glob("*/batch=*"))
        done = watch.one("SELECT coalesce(max(batch), -1) FROM {schema}.writers")
        return any(int(one.name.removeprefix("batch=")) <= done for one in waits)

    return (watch.is_in_hand, reading, watch.is_staged, merged, *[watch.is_staged] * full())


@pytest.mark.proves(
    "a pipeline between two queues, killed in hand, reading, staged and merged, delivers once and in order"
)
@pytest.mark.soak
def test_killed_again_and_again_each_message_is_there_once_and_in_order(box, tmp_path, monkeypatch):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "shown": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("done", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
    )
    publish_backwards(box)
    monkeypatch.setenv(
        "ORDERS_DSN", f"{box.dsn}&password={PASSWORD}" if "?" in box.dsn else f"{box.dsn}?password={PASSWORD}"
    )
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.format(schema=box.schema), encoding="utf-8")
    checkpoint = tmp_path / "checkpoint"
    with Watch(box, checkpoint / "query") as watch:
        for number, moment in enumerate(moments(watch, checkpoint / "waiting")):
            with running(file, tmp_path / f"{number}.jsonl") as run:
                run.kill_when(moment)
        with running(file, tmp_path / "last.jsonl") as run:
            assert run.wait() == 0, (tmp_path / "last.err").read_text()
    found = defaultdict(list)
    while True:
        with box.session() as tx:
            delivery = tx.receive("done", limit=1000)
            if delivery is None:
                break
            found[delivery.group] += [(one.sequence, one.context["version"]) for one in delivery]
    assert dict(found) == {f"c{n}": [(v, v) for v in range(1, MESSAGES // GROUPS + 1)] for n in range(GROUPS)}
    assert not holders(box, tmp_path)


def holders(box, folder):
    """Whatever has the password: files of the run, or the box."""
    files = [file for file in folder.rglob("*") if file.is_file() and PASSWORD.encode() in file.read_bytes()]
    program = find_binaries().root / "bin" / "pg_dump"
    words = [program, f"--schema={box.schema}", "--dbname", box.dsn]
    dumped = subprocess.run(words, check=True, capture_output=True).stdout
    assert b"pipeline through reads a queue" in dumped
    return files + (["the box"] if PASSWORD.encode() in dumped else [])
