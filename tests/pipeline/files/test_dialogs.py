"""What a pipeline file says of dialogs: into which it delivers, and which service it receives for."""

from __future__ import annotations

from pathlib import Path

import pytest

from seriatim.pipeline.declared.pipeline import BOX, Deliver
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.files import pipeline_file

FILE = """\
name: talking
receive:
  - location: crm
    source: {format: json, path: inbox}
    promote: {customer_id: {path: $.c, type: long}, amount: {path: $.a, type: double}}
route:
  - to: all
    resequence: {policy: fifo, group: customer_id}
    deliver: {service: Inventory, from_service: Orders}
"""
SERVICE = """\
name: receiving
receive:
  - service: Inventory
route:
  - to: all
    resequence: {policy: fifo, group: conversation_id}
    deliver: {format: json, path: out}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inbox").mkdir()


def written(text, *changes):
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    Path("pipeline.yaml").write_text(text, encoding="utf-8")
    return Path("pipeline.yaml")


def test_where_dialogs_go():
    (route,) = pipeline_file.load(written(FILE)).route
    names = {"service": "Inventory", "fromService": "Orders", "contract": "DEFAULT", "type": "DEFAULT"}
    assert route.deliver == Deliver(BOX, None, names | {"dialogBy": "group"})
    given = "from_service: Orders, contract: AddItem, dialog_by: customer_id, type: Item"
    changed = written(FILE, ("from_service: Orders", given), ("receive:", "box: {schema: orders}\nreceive:"))
    (route,) = pipeline_file.load(changed).route
    more = {"contract": "AddItem", "type": "Item", "dialogBy": "customer_id", "schema": "orders"}
    assert route.deliver == Deliver(BOX, None, names | more)


def test_what_a_service_gives():
    pipeline = pipeline_file.load(written(SERVICE))
    (received,) = pipeline.receive
    assert received.location == "Inventory"
    assert received.source.options == {"service": "Inventory", "pipeline": "receiving"}
    kinds = {one.name: one.type for one in received.promote}
    assert kinds == {
        "type": "string",
        "handle": "string",
        "conversation_id": "string",
        "service": "string",
        "far_service": "string",
        "contract": "string",
        "dialog_sequence": "long",
        "is_initiator": "boolean",
        "is_monolog": "boolean",
    }
    assert pipeline.needs_box


def test_what_it_gives_may_be_named_otherwise():
    given = "- service: Inventory\n    options: {prefix: d_}\n    promote: {handle: {path: $.h, type: long}}"
    (received,) = pipeline_file.load(written(SERVICE, ("- service: Inventory", given))).receive
    assert Promotion("handle", "$.h", "long") in received.promote
    assert Promotion("service", "d_service") in received.promote


FAULTS = [
    (FILE, "{service: Inventory, from_service: Orders}", "{service: Inventory}", "9:14: route[0].deliver.from_service is missing"),
    (FILE, "{policy: fifo, group: customer_id}", "{policy: unordered}", "9:24: route[0].deliver.dialog_by is missing, and unordered has no groups (name the property"),
    (FILE, "Orders}", "Orders, dialog_by: amount}", "9:68: route[0].deliver.dialog_by: 'amount' is double, but has to be string or long"),
    (FILE, "Orders}", "Orders, dialog_by: custmer_id}", "9:68: route[0].deliver.dialog_by: no location promotes a property 'custmer_id' (did you mean 'customer_id'?)"),
    (FILE, "Orders}", "Orders, queue: q}", "9:64: route[0].deliver.queue: not allowed for messages that go into dialogs"),
    (FILE, "Orders}", "Orders, dialogby: x}", "9:57: unknown key 'dialogby' in route[0].deliver (did you mean 'dialog_by'?)"),
    (FILE, "Orders}", f"Orders, contract: {'c' * 129}}}", "9:67: route[0].deliver.contract: "),
    (FILE, "{service: Inventory, from", "{format: json, path: out, from", "9:40: unknown key 'from_service' in route[0].deliver"),
    (SERVICE, "- service: Inventory", "- service:", "3:5: receive[0].service has no value"),
    (SERVICE, "- service: Inventory", "- service: S\n    queue: q", "4:12: receive[0].queue: the messages come from a service"),
    (SERVICE, "- service: Inventory", "- service: S\n    options: {prefx: p}", "4:15: unknown option 'prefx' of a service (did you mean 'prefix'?)"),
    (SERVICE, "- service: Inventory", "- location: a\n    source: {format: json, path: inbox}\n    promote: {handle: {path: $.h, type: long}, conversation_id: $.c}\n  - service: S", "6:14: property 'handle' of a service's messages is string, and long at another location"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new", "told"), FAULTS, ids=[told[:50] for *_, told in FAULTS])
def test_a_fault_is_told_with_its_place(text, old, new, told):
    found = [str(one) for one in pipeline_file.check(written(text, (old, new)))]
    assert any(one.startswith(f"pipeline.yaml:{told}") for one in found), found
