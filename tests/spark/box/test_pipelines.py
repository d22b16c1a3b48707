"""Pipelines that read from a box, and deliver to one."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict

import pytest

import seriatim as sq
from seriatim.errors import CheckpointMismatch
from seriatim.pipeline.files.pipeline_file import check, load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long", "amount": "long"})

INTO_QUEUE = """
name: capture
checkpoint: {folder}/checkpoint
buckets: 2
box: {{dsn: "{dsn}", schema: {schema}}}
receive:
  - location: crm
    source: {{format: json, path: {folder}/in}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}, amount: {{path: $.amount, type: long}}, type: $.type}}
route:
  - to: orders
    where: "amount >= 100"
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{queue: orders}}
  - to: copies
    where: "TRUE"
    resequence: {{policy: fifo, group: customer}}
    deliver: {{queue: copies}}
"""

BY_SUBSCRIPTIONS = """
name: publishing
checkpoint: {folder}/checkpoint
buckets: 2
box: {{dsn: "{dsn}", schema: {schema}}}
receive:
  - location: crm
    source: {{format: json, path: {folder}/in}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}, amount: {{path: $.amount, type: long}}, type: $.type}}
route: box
"""

FROM_QUEUE = """
name: shipping
checkpoint: {folder}/checkpoint
buckets: 2
box: {{dsn: "{dsn}", schema: {schema}}}
receive:
  - queue: orders
    promote: {{customer: customer, version: {{path: version, type: long}}, shown: {{path: ordinal, type: long}}}}
route:
  - to: shipped
    where: "type = 'order'"
    resequence: {{policy: standard, group: customer, sequence: shown}}
    deliver: {{format: json, path: {folder}/out}}
"""


@pytest.fixture
def queues(box):
    box.define(
        ORDER,
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("copies", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Subscription("large", where="type = 'order' AND amount >= 100", to="orders"),
        sq.Subscription("all", where="type = 'order'", to="copies"),
    )
    return box


def pipeline(text, box, folder):
    (folder / "in").mkdir(exist_ok=True, parents=True)
    file = folder / "pipeline.yaml"
    file.write_text(text.format(folder=folder, dsn=box.dsn, schema=box.schema), encoding="utf-8")
    assert check(file) == []
    return load(file)


def feed(folder, name, *rows):
    (folder / "in").mkdir(exist_ok=True, parents=True)
    lines = (json.dumps({"type": "order", "customer": c, "version": v, "amount": a}) for c, v, a in rows)
    (folder / "in" / f"{name}.json").write_text("\n".join(lines), encoding="utf-8")


def drain(box, name):
    found = defaultdict(list)
    while True:
        with box.session() as tx:
            delivery = tx.receive(name, limit=1000)
            if delivery is None:
                return dict(found)
            found[delivery.group] += delivery


def test_a_pipeline_ends_in_queues_with_its_ordinals(spark, queues, tmp_path):
    declared = pipeline(INTO_QUEUE, queues, tmp_path)
    feed(tmp_path, "1", ("a", 2, 100), ("b", 1, 5), ("a", 1, 100), ("c", 1, 200), ("a", 4, 100))
    summary = run(declared, once=True)
    assert summary.waiting == ()
    feed(tmp_path, "2", ("a", 3, 100), ("b", 2, 100))
    run(declared, once=True)
    orders = drain(queues, "orders")
    assert {group: [(one.context["version"], one.sequence) for one in each] for group, each in orders.items()} == {
        "a": [(1, 1), (2, 2), (3, 3), (4, 4)],
        "c": [(1, 1)],
    }
    # The other one takes them as they came: its numbers are the ordinals, whatever the producer's are.
    copies = drain(queues, "copies")
    assert [(one.context["version"], one.sequence) for one in copies["a"]] == [(2, 1), (1, 2), (4, 3), (3, 4)]
    assert [one.context["version"] for one in copies["b"]] == [1, 2]
    assert json.loads(orders["a"][0].body)["version"] == 1


def test_a_checkpoint_of_a_backup_is_refused_as_long_as_the_box_has_later_batches(spark, queues, tmp_path):
    declared = pipeline(INTO_QUEUE, queues, tmp_path)
    checkpoint, backup, newest = (tmp_path / name for name in ("checkpoint", "backup", "newest"))
    for version in (1, 2, 3):
        feed(tmp_path, str(version), ("a", version, 100))
        run(declared, once=True)
        if version == 1:
            shutil.copytree(checkpoint, backup)
    checkpoint.rename(newest)
    shutil.copytree(backup, checkpoint)
    feed(tmp_path, "4", ("a", 4, 100))
    with pytest.raises(
        CheckpointMismatch, match=r"destination orders: the port has batch \d+, .* it is older \(restore both"
    ):
        run(declared, once=True)
    shutil.rmtree(checkpoint)
    newest.rename(checkpoint)
    run(declared, once=True)
    assert [one.context["version"] for one in drain(queues, "orders")["a"]] == [1, 2, 3, 4]


def test_a_full_queue_makes_its_own_destination_wait_and_says_so(spark, queues, tmp_path):
    queues.define(
        sq.Queue(
            "orders",
            policy=sq.Standard(),
            group="customer",
            sequence="version",
            max_messages=sq.Limit(2, when_full="refuse"),
        )
    )
    declared = pipeline(INTO_QUEUE, queues, tmp_path)
    feed(tmp_path, "1", ("a", 1, 100), ("b", 1, 100))
    assert run(declared, once=True).waiting == ()
    feed(tmp_path, "2", ("c", 1, 100))
    (waiting,) = run(declared, once=True).waiting
    assert (waiting.destination, waiting.rows) == ("orders", 1)
    assert "queue 'orders': batch" in waiting.reason
    assert "raise max_messages" in waiting.reason
    assert sorted(drain(queues, "copies")) == ["a", "b", "c"]
    assert sorted(drain(queues, "orders")) == ["a", "b"]
    assert run(declared, once=True).waiting == ()
    assert sorted(drain(queues, "orders")) == ["c"]


def test_a_pipeline_is_routed_by_the_subscriptions_of_the_box(spark, queues, tmp_path):
    declared = pipeline(BY_SUBSCRIPTIONS, queues, tmp_path)
    feed(tmp_path, "1", ("a", 2, 100), ("b", 1, 5), ("a", 1, 100))
    run(declared, once=True)
    queues.define(
        sq.Queue("new", policy=sq.Fifo(), group="customer"), sq.Subscription("b", where="customer = 'b'", to="new")
    )
    feed(tmp_path, "2", ("b", 2, 5))
    run(declared, once=True)
    assert {group: len(each) for group, each in drain(queues, "orders").items()} == {"a": 2}
    assert {group: [one.sequence for one in each] for group, each in drain(queues, "copies").items()} == {
        "a": [1, 2],
        "b": [1, 2],
    }
    assert [one.context["version"] for one in drain(queues, "new")["b"]] == [2]


@pytest.mark.telling
def test_a_pipeline_begins_with_a_queue(spark, queues, tmp_path):
    declared = pipeline(FROM_QUEUE, queues, tmp_path)
    sent = {}
    for versions in ((3, 1, 2), (5, 4)):
        with queues.session() as tx:
            messages = [
                sq.Message(type="order", body=b"x", context={"customer": c, "version": v, "amount": 100})
                for v in versions
                for c in "ab"
            ]
            sent |= dict.fromkeys(tx.publish(messages))
        run(declared, once=True)
    files = sorted((tmp_path / "out").glob("batch=*/*"))
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    found = defaultdict(list)
    for row in rows:
        found[row["group"]].append((row["version"], row["ordinal"]))
    assert dict(found) == {group: [(n, n) for n in range(1, 6)] for group in "ab"}
    assert {row["message_id"] for row in rows} == set(sent)
    with pytest.raises(sq.ActionRefused, match="belongs to the pipeline 'shipping'"), queues.session() as tx:
        tx.receive("orders")


def test_what_can_not_be_declared(tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "name: p\nbox: {dns: x}\nreceive:\n  - queue: q\n    source: {format: json, path: in}\n    options: {maxMessages: 5}\nroute: box\n",
        encoding="utf-8",
    )
    said = "\n".join(str(fault) for fault in check(file))
    assert "unknown key 'dns'" in said or "dns" in said
    assert "the messages come from a queue" in said
    assert "unknown option 'maxMessages' of a queue" in said


def test_a_message_that_can_not_be_kept_stops_no_pipeline(spark, queues, tmp_path):
    declared = pipeline(BY_SUBSCRIPTIONS, queues, tmp_path)
    rows = [{"type": "order", "customer": "a", "version": 1}, {"type": "a\0b"}, {"type": ""}, {"customer": "z"}]
    rows += [{"type": "order", "customer": "a\0", "version": 1}, {"type": "order", "customer": "a", "version": 2}]
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert run(declared, once=True).waiting == ()
    assert [one.context["version"] for one in drain(queues, "copies")["a"]] == [1, 2]
    with queues.session() as tx:
        found = tx.connection.execute(
            f"SELECT message_id, problem FROM {queues.schema}.unrouted JOIN {queues.schema}.spool "
            "USING (arrival_id, position) ORDER BY message_id"
        ).fetchall()
    assert found == [
        ("crm/1.json:4", None),  # its type is the destination's name, which nobody wants
        ("crm/1.json:5", "property customer: 'a\\x00' has a NUL (its type is string)"),
    ]
    aside = read_set_aside(tmp_path / "checkpoint/set-aside", "invalid")
    assert sorted(one.reason for one in aside) == [
        "1.json:2: type: 'a\\x00b' can't be the type of a message",
        "1.json:3: type: '' can't be the type of a message",
    ]
