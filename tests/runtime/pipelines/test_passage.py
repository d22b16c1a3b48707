"""A message on its way through the stages before the order, outside of Spark: what goes back, and what is refused and why."""

from __future__ import annotations

import json

import pytest

from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.passage import Passage, PutBackRefusal, Request

FILE = """
name: orders
receive:
  - location: crm
    source: {format: json, path: IN}
    promote:
      customer: $.customer
      version: {path: $.version, type: long}
      total: {path: $.total, type: 'decimal(10,2)'}
      at: {path: $.at, type: timestamp}
      weight: {path: $.weight, type: double}
      kind: $.kind
      through: {path: $.through, type: long}
  - location: till
    source: {format: csv, path: IN, options: {header: 'true'}}
    promote: {customer: customer, version: {path: version, type: long}, at: {path: at, type: timestamp}, kind: kind, through: {path: through, type: long}}
  - location: lines
    source: {format: json, path: IN}
    split: $.lines
    promote: {customer: {path: $.customer, envelope: true}, version: {path: $.line, type: long}, at: {path: $.at, type: timestamp}, through: {path: $.t, type: long}}
route:
  - to: ordered
    where: "kind IS NULL OR kind <> 'note'"
    resequence: {policy: standard, group: customer, sequence: version}
    deliver: {format: json, path: out/ordered}
  - to: large
    where: "total >= 100.5"
    resequence: {policy: best_effort, by: time, group: customer, sequence: at, window: 5s}
    deliver: {format: json, path: out/large}
  - to: sets
    where: "kind = 'set'"
    resequence: {policy: unit_of_work, group: customer, sequence: version, last: "kind = 'set'"}
    deliver: {format: json, path: out/sets}
  - to: tickets
    where: "kind = 'ticket'"
    resequence: {policy: standard, group: customer, sequence: ticket}
    deliver: {format: json, path: out/tickets}
  - to: ranges
    where: "kind = 'range' OR kind = 'snapshot' OR kind = 'status'"
    resequence:
      policy: standard
      group: customer
      sequence: {by: version, through: through, base: "kind = 'snapshot'", unnumbered: "kind = 'status'"}
    deliver: {format: json, path: out/ranges}
  - to: notes
    where: "kind = 'note'"
    resequence: {policy: unordered}
    deliver: {format: json, path: out/notes}
"""
ASIDE = {
    "destination": "ordered", "disposition": "invalid", "reason": "a.json:1: not JSON", "message_id": "crm/a.json:1",
    "type": None, "location": "crm", "ticket": None, "group": None, "sequence": None, "customer": None, "version": None,
    "total": None, "at": None, "kind": None, "body": "nonsense",
}  # fmt: skip
LATE = ASIDE | {
    "disposition": "late", "reason": "its number was skipped before", "group": "c", "sequence": 3, "customer": "c",
    "version": 3, "ticket": {"location": "crm", "epoch": 0, "number": 7}, "body": '{"customer": "c", "version": 3}',
}  # fmt: skip


@pytest.fixture(scope="module")
def passage(tmp_path_factory):
    file = tmp_path_factory.mktemp("passage") / "pipeline.yaml"
    (file.parent / "in").mkdir()
    file.write_text(FILE.replace("IN", str(file.parent / "in")))
    return Passage(load(file))


def ways(passage, fields, *, anew=True, edited=(), only=None):
    (found,) = passage.ways([Request(fields, anew, tuple(edited), only)])
    for one in found:
        if isinstance(one, PutBackRefusal):
            raise one
    return [(one.destination, one.key, one.sequence, one.size) for one in found]


AT = '"at": "1970-01-01T00:00:01Z"'


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ('{"customer": "c", "version": 3}', [("ordered", "c", 3, None)]),
        ('{"customer": "c", "version": 3, "total": 100}', [("ordered", "c", 3, None)]),
        (
            '{"customer": "c", "version": 3, "total": 100.5, ' + AT + "}",
            [("ordered", "c", 3, None), ("large", "c", 1_000_000, None)],
        ),
        ('{"customer": "c", "version": 3, "kind": "set"}', [("ordered", "c", 3, None), ("sets", "c", 3, 3)]),
        ('{"kind": "note"}', [("notes", "crm/a.json:1", None, None)]),
    ],
)
def test_an_invalid_message_is_read_again_and_routed(passage, body, wanted):
    assert ways(passage, ASIDE | {"body": body}, edited=("body",)) == wanted


def test_a_message_that_had_passed_goes_where_it_came_from(passage):
    assert ways(passage, LATE, anew=False, only="ordered") == [("ordered", "c", 3, None)]
    edited = LATE | {"body": '{"customer": "d", "version": 4}'}
    assert ways(passage, edited, anew=False, edited=("body",), only="ordered") == [("ordered", "d", 4, None)]
    # What somebody has edited counts before the body.
    by_hand = edited | {"version": 9}
    assert ways(passage, by_hand, anew=False, edited=("body", "version"), only="ordered") == [("ordered", "d", 9, None)]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"kind": "range", "version": 3, "through": 5}, (3, None, {"through": 5, "epoch": None, "void": False})),
        ({"kind": "snapshot", "version": 3, "through": 5}, (5, 16, {"through": 5, "epoch": None, "void": False})),
        ({"kind": "status"}, (0, 64, {"through": 0, "epoch": None, "void": False})),
        (
            {"kind": "range", "version": 3, "through": 2},
            "it is still invalid: the last number that it covers is below the first, or more than half the modulus ahead",
        ),
    ],
)
def test_what_its_number_means_goes_back_with_it(passage, body, wanted):
    fields = LATE | {"body": json.dumps({"customer": "c", **body})}
    (found,) = passage.ways([Request(fields, edited=("body",), only="ranges")])
    if isinstance(wanted, str):
        assert [str(one) for one in found] == [wanted]
    else:
        (entry,) = found
        assert (entry.sequence, entry.size, entry.numbers) == wanted


def test_its_columns_are_all_there(passage):
    fields = {"weight": -4.0, "total": "12.50", "at": "1970-01-01T00:00:01Z", "body": None, "body_base64": "/w=="}
    ((entry,),) = passage.ways([Request(LATE | fields, only="ordered")])
    assert entry.row == {
        "message_id": "crm/a.json:1", "location": "crm", "customer": "c", "version": 3, "weight": -4.0, "total": "12.50", "at": 1_000_000,
        "body": "/w==", "ticket": {"location": "crm", "epoch": 0, "number": 7},
    }  # fmt: skip


def test_it_goes_back_with_the_types_of_its_properties_and_its_order(passage):
    ((entry,),) = passage.ways(
        [Request(LATE | {"type": 5, "total": "12.50", "at": "1970-01-01T00:00:01Z"}, only="ordered")]
    )
    assert entry.row["type"] == "5"
    assert passage.declared(entry) == {
        "types": {"customer": "string", "version": "long", "total": "decimal(10,2)", "at": "timestamp"},
        "order": {"policy": "standard", "group": "customer", "sequence": "version"},
    }


def test_what_isn_t_in_the_body_is_what_the_line_says(passage):
    fields = ASIDE | {"location": "till", "body": "c;1", "customer": "c", "version": "7"}
    assert ways(passage, fields, edited=("customer", "version")) == [("ordered", "c", 7, None)]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "it is still invalid: not JSON"),
        ({"body": '{"customer": "c", "version": "x"}'}, "it is still invalid: version: 'x' is not a long"),
        ({"body": '{"version": 1}'}, "it is still invalid: the group key is missing"),
        ({"body": '{"customer": "c"}'}, "it is still invalid: the sequence is missing"),
        ({"body": None}, "it is still invalid: the body is empty"),
        ({"location": "gone"}, "the pipeline has no location 'gone' any more"),
        ({"location": "lines"}, "messages of its location are split, and this one wasn't"),
        ({"version": "x", "body": "{}"}, "version: 'x' is not a long"),
        ({"type": "\ud800"}, "type: half a surrogate pair is no text"),
        ({"type": ""}, "type: '' can't be the type of a message"),
    ],
)
def test_what_is_still_invalid_is_refused(passage, fields, why):
    with pytest.raises(PutBackRefusal) as refused:
        ways(passage, ASIDE | fields, edited=("body",))
    assert str(refused.value).startswith(why)


def test_what_its_destination_doesn_t_want_any_more_is_refused(passage):
    with pytest.raises(PutBackRefusal, match="destination ordered doesn't want it any more"):
        ways(passage, LATE | {"kind": "note"}, anew=False, edited=("kind",), only="ordered")
    without_number = ASIDE | {"body": '{"customer": "c", "version": 1, "kind": "ticket"}'}
    with pytest.raises(PutBackRefusal, match="it is still invalid: the sequence is missing"):
        ways(passage, without_number, edited=("body",))
