"""Pipelines that deliver into dialogs of a box, and receive what comes for a service."""

from __future__ import annotations

import json
import shutil

import pytest

import seriatim as sq
from seriatim.errors import CheckpointMismatch
from seriatim.operations import dialogs, messages
from seriatim.pipeline.files.pipeline_file import check, load
from seriatim.runtime.pipelines.run import run

INTO_DIALOGS = """
name: selling
checkpoint: {folder}/selling
buckets: 2
box: {{dsn: "{dsn}", schema: {schema}}}
receive:
  - location: crm
    source: {{format: json, path: {folder}/in}}
    promote: {{customer_id: {{path: $.customer, type: long}}, version: {{path: $.version, type: long}}, type: $.type}}
route:
  - to: sold
    where: "customer_id < 10"
    resequence: {{policy: standard, group: customer_id, sequence: version}}
    deliver: {{service: Inventory, from_service: Orders, contract: AddItem, dialog_by: customer_id}}
"""

FROM_SERVICE = """
name: shipping
checkpoint: {folder}/shipping
buckets: 2
box: {{dsn: "{dsn}", schema: {schema}}}
receive:
  - service: Inventory
    promote: {{shown: {{path: ordinal, type: long}}}}
route:
  - to: shipped
    where: "service = 'Inventory' AND NOT is_initiator"
    resequence: {{policy: fifo, group: conversation_id}}
    deliver: {{format: json, path: {folder}/out}}
"""


def declared(text, box, folder, name):
    (folder / "in").mkdir(exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(text.format(folder=folder, dsn=box.dsn, schema=box.schema), encoding="utf-8")
    assert check(file) == []
    return load(file)


def feed(folder, name, *rows):
    lines = [json.dumps({"type": kind, "customer": c, "version": v}) for kind, c, v in rows]
    (folder / "in" / f"{name}.json").write_text("\n".join(lines), encoding="utf-8")


def forget_the_end(folder):
    """As if the pipeline had been killed after its last batch was written, and before it knew so."""
    for last in sorted((folder / "commits").glob("[0-9]*"), key=lambda one: int(one.name))[-1:]:
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def by_conversation(folder):
    """What a pipeline delivered: for each conversation, as (number, type, the body's version)."""
    found = {}
    for file in sorted(folder.glob("batch=*/*")):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            version = json.loads(row["body"])["version"] if row["body"] else None
            found.setdefault(row["conversation_id"], []).append((row["dialog_sequence"], row["type"], version))
    return sorted(found.values())


def test_a_pipeline_sends_in_dialogs_and_another_one_receives_them(spark, box, tmp_path):
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator", "Last": "initiator", "ItemAdded": "target"}),
        sq.Service("Orders", queue="orders"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )
    selling = declared(INTO_DIALOGS, box, tmp_path, "selling")
    feed(tmp_path, "1", ("AddItem", 1, 2), ("AddItem", 2, 1), ("AddItem", 1, 1), ("Unknown", 3, 1), ("AddItem", 11, 1))
    assert run(selling, once=True).waiting == ()
    forget_the_end(tmp_path / "selling" / "query")
    feed(tmp_path, "2", ("Last", 1, 4), ("AddItem", 1, 3), ("AddItem", 2, 2))
    assert run(selling, once=True).waiting == ()
    first, second = sorted(
        (one for one in dialogs.dialogs(box) if one.is_initiator), key=lambda one: one.send_sequence, reverse=True
    )
    with box.session() as tx:
        tx.end(first.handle)
    run(declared(FROM_SERVICE, box, tmp_path, "shipping"), once=True)
    assert by_conversation(tmp_path / "out") == [
        [(0, "AddItem", 1), (1, "AddItem", 2)],
        [(0, "AddItem", 1), (1, "AddItem", 2), (2, "AddItem", 3), (3, "Last", 4), (4, "EndDialog", None)],
    ]
    states = {(one.conversation_id, one.is_initiator): one.state for one in dialogs.dialogs(box)}
    assert {states[first.conversation_id, side] for side in (True, False)} == {"CD"}
    assert {states[second.conversation_id, side] for side in (True, False)} == {"CO"}
    (unrouted,) = messages.messages(box, status="unrouted")
    assert unrouted.reason == 'the contract "AddItem" has no message type "Unknown"'


def test_a_checkpoint_of_a_backup_is_refused_as_long_as_later_batches_were_sent(spark, box, tmp_path):
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator"}),
        sq.Service("Orders", queue="orders"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )
    selling = declared(INTO_DIALOGS, box, tmp_path, "selling")
    for version in (1, 2, 3):
        feed(tmp_path, str(version), ("AddItem", 1, version))
        run(selling, once=True)
        if version == 1:
            shutil.copytree(tmp_path / "selling", tmp_path / "backup")
    shutil.rmtree(tmp_path / "selling")
    (tmp_path / "backup").rename(tmp_path / "selling")
    with pytest.raises(CheckpointMismatch, match=r"destination sold: the port has batch \d+, .* it is older"):
        run(selling, once=True)
