"""Reading the files of message boxes: good ones become declarations, faults are told with their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from seriatim import FaultKinds, Group, Keep, Limit, Pace
from seriatim.errors import DeclarationError, UsageError
from seriatim.kernel.fields import Declaration, Value, rows
from seriatim.kernel.groups.policy import BestEffort, Fifo, Standard, UnitOfWork, Unordered
from seriatim.pipeline.declared.activation import Activation
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.files import box_file, pipeline_file
from seriatim.pipeline.files.box_file import BoxFile
from seriatim.pipeline.types.message_type import MessageType

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "box-file.md"

FULL = """\
locations: {crm: {last_number: 999999}, legacy: {}}
types:
  order:
    properties: {customer_id: $.customer.id, version: {path: $.version, type: long}, amount: {path: $.total, type: 'decimal( 12, 2 )'}, urgent: boolean, rank: long}
    validation: valid_json
    schema: order.json
  note:
    properties: {customer_id: [/o:note/@customer, /o:note/o:customer], lines: {path: [count(//o:line)], type: long}, at: {path: [o:at, o:sent], type: timestamp}}
    namespaces: {o: urn:orders}
queues:
  fulfilment:
    policy: standard
    group: {by: customer_id, expire_after: 90d}
    sequence: version
    hole_timeout: 100s
    on_hole: skip
    errors: continue
    priority: rank
    keep: {done: everything, done_for: 7d, events: all}
    max_messages: {messages: 1000, when_full: refuse}
    enabled: false
  sets: {policy: unit_of_work, group: parent_id, sequence: part, size: parts}
subscriptions:
  big-orders: {where: "type = 'order' AND amount >= 100", to: fulfilment}
  all: {where: TRUE, to: elsewhere, state: enlisted}
"""

SMALL = """\
types:
  order: {properties: {key: $.key, number: {path: $.n, type: long}, at: {path: $.at, type: timestamp}}}
queues:
  all: {policy: standard, group: key, sequence: number}
subscriptions:
  every: {where: number > 3, to: all}
"""

# A box that has nothing yet.
EMPTY = BoxFile()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("order.json").write_text('{"type": "object"}', encoding="utf-8")
    Path("broken.json").write_text("{", encoding="utf-8")
    Path("latin.json").write_bytes(b'{"title": "caf\xe9"}')


def written(text: str | bytes) -> str:
    Path("box.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return "box.yaml"


def faults(text: str | bytes, present: BoxFile | None = EMPTY, environment: dict[str, str] | None = None) -> list[str]:
    return [str(one) for one in box_file.examine(written(text), environment or {}, present=present)[1]]


def fault(text: str | bytes, present: BoxFile | None = EMPTY) -> str:
    (one,) = faults(text, present)
    return one.removeprefix("box.yaml:")


def small(old: str, new: str) -> str:
    assert SMALL.count(old) == 1, old
    return SMALL.replace(old, new)


def test_a_whole_file_becomes_declarations():
    assert box_file.load(written(FULL)) == BoxFile(
        locations=(Location("crm", 999_999), Location("legacy")),
        types=(
            MessageType(
                "order",
                {
                    "customer_id": {"type": "string", "path": "$.customer.id"},
                    "version": {"type": "long", "path": "$.version"},
                    "amount": {"type": "decimal(12,2)", "path": "$.total"},
                    "urgent": "boolean",
                    "rank": "long",
                },
                validation="valid_json",
                schema='{"type": "object"}',
            ),
            MessageType(
                "note",
                {
                    "customer_id": {"type": "string", "path": ("/o:note/@customer", "/o:note/o:customer")},
                    "lines": {"type": "long", "path": "count(//o:line)"},
                    "at": {"type": "timestamp", "path": ("o:at", "o:sent")},
                },
                namespaces={"o": "urn:orders"},
            ),
        ),
        queues=(
            Queue(
                "fulfilment",
                Standard(hole_timeout=100, on_hole="skip"),
                Group("customer_id", expire_after="90d"),
                "version",
                errors="continue",
                priority="rank",
                keep=Keep("everything", done_for="7d", events="all"),
                max_messages=Limit(1000, when_full="refuse"),
                enabled=False,
            ),
            Queue("sets", UnitOfWork(size="parts"), "parent_id", "part"),
        ),
        subscriptions=(
            Subscription("big-orders", "type = 'order' AND amount >= 100", "fulfilment"),
            Subscription("all", "TRUE", "elsewhere", "enlisted"),
        ),
    )


@pytest.mark.parametrize("part", ["locations: {crm: {}}", "types: {a: {}}", "queues: {q: {policy: unordered}}", "{}"])
def test_every_part_is_optional(part):
    assert faults(part) == []


@pytest.mark.parametrize(
    ("queue", "policy"),
    [
        ("policy: fifo, group: key", Fifo()),
        ("policy: unordered", Unordered()),
        ("policy: best_effort, group: key, sequence: at, by: time, window: 2", BestEffort(by="time", window=2)),
        ("policy: unit_of_work, group: key, sequence: number, last: number = 9", UnitOfWork(last="number = 9")),
        ("policy: standard, group: location, sequence: part, start: first", Standard(start="first")),
    ],
)
def test_reads_policies(queue, policy):
    text = small("policy: standard, group: key, sequence: number", queue)
    assert box_file.load(written(text), present=EMPTY).queues[0].policy == policy


# What stands in the file, what replaces it, and how the one fault begins.
FAULTS = [
    ("types:", "name: small\ntypes:", "1:1: unknown key 'name' (one of contracts, links, locations, queues, schedules, services, settings, subscriptions, types)"),
    ("types:", "route: box\ntypes:", "1:1: unknown key 'route' (it belongs in a pipeline file, for seriatim run FILE)"),
    ("queues:", "queus: {}\nqueues:", "3:1: unknown key 'queus' (did you mean 'queues'?)"),
    ("types:", "contract: {}\ntypes:", "1:1: unknown key 'contract' (did you mean 'contracts'?)"),
    ("types:", "contracts: {C: }\ntypes:", "1:13: contracts.C has no value"),
    ("types:", "contracts: {C: {A: nobody}}\ntypes:", "1:20: contracts.C.A can't be 'nobody'"),
    ("types:", "contracts: {C: {A: target}}\ntypes:", "1:16: the initiator may send nothing"),
    ("types:", "contracts: {C: {Error: any}}\ntypes:", "1:24: 'Error' is a message of the box itself"),
    ("types:", "services: {S: {}}\ntypes:", "1:15: it has no queue (name one"),
    ("types:", "services: {S: {queue: q, contracts: [C, C]}}\ntypes:", "1:37: services.S.contracts must be a text or a list of different texts"),
    ("types:", "services: {S: {queue: q, retention: 7}}\ntypes:", "1:37: services.S.retention"),
    ("types:", "locations: [crm]\ntypes:", "1:12: locations must be a mapping, not a list"),
    ("types:", "locations: {crm: }\ntypes:", "1:13: locations.crm has no value"),
    ("types:", "locations: {crm: 7}\ntypes:", "1:18: locations.crm must be a mapping, not 7"),
    ("types:", "locations: {'': {}}\ntypes:", "1:12: '' is not a location's name (1 to 128 characters"),
    ("types:", "locations: {crm: {last: 1}}\ntypes:", "1:19: unknown key 'last' in locations.crm (one of last_number)"),
    ("types:", "locations: {crm: {last_number: 0}}\ntypes:", "1:32: locations.crm.last_number must be a whole number"),
    ("types:", "locations: {crm: {}, crm: {}}\ntypes:", "1:22: 'crm' is given twice"),
    ("order: {", "order: {valdation: none, ", "2:11: unknown key 'valdation' in types.order (did you mean 'validation'?)"),
    ("order: {", "order: {validation: json, ", "2:23: types.order.validation can't be 'json'"),
    ("order: {", "order: {validation: valid_json, ", "2:23: valid_json needs a schema"),
    ("order: {", "order: {validation: empty, ", "2:42: bodies are empty, so nothing is found in them"),
    ("order: {", "order: {validation: valid_json, schema: gone.json, ", "2:43: the schema 'gone.json' does not exist"),
    ("order: {", "order: {validation: valid_json, schema: ., ", "2:43: the schema '.' can't be read: Is a directory"),
    ("order: {", 'order: {validation: valid_json, schema: "\\ud800", ', "2:43: '\\ud800' can't be a path"),
    ("order: {", "order: {validation: valid_json, schema: latin.json, ", "2:43: the schema 'latin.json' is not UTF-8"),
    ("order: {", "order: {validation: valid_json, schema: broken.json, ", "2:43: the schema"),
    ("order: {", "order: {schema: order.json, ", "2:19: validation is none, which takes no schema"),
    ("order: {", "order: {namespaces: {o: 'urn:x'}, ", "2:23: namespaces are for XPath"),
    ("order: {", "order: {namespaces: {'1': 'urn:x'}, ", "2:24: '1' can't be a prefix of names in XML"),
    ("key: $.key", "key: key", "2:29: 'key' is not a type"),
    ("key: $.key", "key: int", "2:29: 'int' is not a type (did you mean long?)"),
    ("key: $.key", "key: $.a..b", "2:29: '$.a..b' is not a path to one value"),
    ("key: $.key", "key: {type: decimal}", "2:36: 'decimal' is not a type (write decimal(precision,scale)"),
    ("key: $.key", "key: [$.a, $.a]", "2:29: types.order.properties.key must be a text or a list of different texts"),
    ("key: $.key", "key: [$.a, '$.b[*]']", "2:29: '$.b[*]' is not a path to one value"),
    ("key: $.key", "key: {path: [$.a, /b]}", "2:23: some paths are JSON paths and others XPath"),
    ("key: $.key", "key: {typ: long}", "2:30: unknown key 'typ' in types.order.properties.key (did you mean 'type'?)"),
    ("key: $.key", "key: {path: '//['}", "2:36: '//[' is not XPath"),
    ("key: $.key", "key: /o:x", "2:29: '/o:x': the prefix 'o' is not in namespaces"),
    ("key: $.key", "key: /x", "2:23: some paths are JSON paths and others XPath (a body is one or the other)"),
    ("key: $.key", "key: $.key, ticket: long", "2:36: 'ticket' is the name of a column that seriatim adds"),
    ("key: $.key", "key: $.key, type: $.t", "2:36: 'type' is a field of every message"),
    ("key: $.key", "key: $.key, Key: long", "2:41: the properties 'key' and 'Key' differ only in capitals"),
    ("policy: standard, ", "", "4:8: queues.all.policy is missing"),
    ("policy: standard", "policy: strict", "4:17: queues.all.policy can't be 'strict'"),
    ("group: key, ", "", "4:17: queue 'all': standard needs a group"),
    ("group: key", "group: kee", "4:34: queues.all.group: no message type declares 'kee' (did you mean 'key'?)"),
    ("group: key", "group: body", "4:34: queues.all.group: no message type declares 'body'"),
    ("sequence: number", "sequence: key", "4:49: queues.all.sequence: 'key' is string, but has to be long"),
    ("policy: standard", "policy: best_effort, by: time", "4:62: queues.all.sequence: 'number' is long, but has to be time"),
    ("sequence: number", "sequence: number, window: 5", "4:57: standard takes no window (best_effort does)"),
    ("sequence: number", "sequence: number, hole_timeout: soon", "4:71: Standard: hole_timeout: 'soon' is not a duration"),
    ("policy: standard", "policy: unit_of_work, size: key", "4:37: queues.all.size: 'key' is string, but has to be long"),
    ("policy: standard", "policy: unit_of_work, last: numbr = 1", "4:37: queues.all.last: 1:1 of the filter: there is no"),
    ("sequence: number", "sequence: number, activation: {handler: nonsense}", "4:79: 'nonsense' doesn't name a function"),
    ("sequence: number", "sequence: number, activation: {minimum: 5}", "4:79: minimum is 5, and maximum 1 (raise maximum)"),
    ("sequence: number", "sequence: number, activation: {maximum: 0}", "4:79: queues.all.activation.maximum must be a whole"),
    ("sequence: number", "sequence: number, activation: {handler: 'a:b', pace: {rate: fast}}", "4:99: queues.all.activation.pace.rate can't be 'fast' (messages a second"),
    ("sequence: number", "sequence: number, activation: {handler: 'a:b', pace: {rate: 0}}", "4:99: queues.all.activation.pace.rate can't be 0"),
    ("sequence: number", "sequence: number, activation: {handler: 'a:b', mode: lazy}", "4:92: queues.all.activation.mode can't be 'lazy'"),
    ("sequence: number", "sequence: number, activation: {mode: leased}", "4:76: mode can't be 'leased' where the handlers are"),
    ("sequence: number", "sequence: number, activation: {maximun: 2}", "4:70: unknown key 'maximun' in queues.all.activation"),
    ("sequence: number", "sequence: number, errors: ignore", "4:65: queues.all.errors can't be 'ignore' (one of cont"),
    ("sequence: number", "sequence: number, priority: key", "4:67: queues.all.priority: 'key' is string, but has to be long"),
    ("sequence: number", "sequence: number, keep: all", "4:63: queues.all.keep can't be 'all'"),
    ("sequence: number", "sequence: number, keep: {done: all, done_for: 7d}", "4:70: queues.all.keep.done can't be 'all'"),
    ("sequence: number", "sequence: number, keep: {done: nothing, done_for: 7d}", "4:89: done_for says for how long, and nothing is kept"),
    ("sequence: number", "sequence: number, keep: {done: faults, done_for: 0}", "4:88: queues.all.keep.done_for can't be 0 (more than 0 and at most 10,000 days)"),
    ("sequence: number", "sequence: number, keep: {done: faults, done_for: 1y}", "4:88: queues.all.keep.done_for: '1y' is not a duration"),
    ("sequence: number", "sequence: number, max_messages: 0", "4:71: queues.all.max_messages must be a whole number from 1"),
    ("sequence: number", "sequence: number, max_messages: {when_full: refuse}", "4:71: queues.all.max_messages.messages is missing"),
    ("sequence: number", "sequence: number, enabled: 'no'", "4:66: queues.all.enabled must be true or false, not 'no'"),
    ("sequence: number", "sequence: number, recover: {delay: 10001d}", "4:74: queues.all.recover.delay can't be '10001d' (from 0 to 10,000 days)"),
    ("group: key", "group: {by: key, expire_after: 0}", "4:58: queues.all.group.expire_after can't be 0 (more than 0"),
    ("group: key", "group: {by: key, expire_after: 1y}", "4:58: queues.all.group.expire_after: '1y' is not a duration"),
    ("sequence: number", "sequence: number, retry: 5", "4:64: queues.all.retry must be a mapping, not 5 (such as {attempts: 5})"),
    ("sequence: number", "sequence: number, retry: 2.5", "4:64: queues.all.retry must be a mapping, not 2.5 (such as {attempts: …})"),
    ("sequence: number", "sequence: number, retry: [5]", "4:64: queues.all.retry must be a mapping, not a list"),
    ("sequence: number", "sequence: number, retry: {factor: true}", "4:73: queues.all.retry.factor can't be true (a number from 1"),
    ("sequence: number", "sequence: number, max_messages: {messages: true}", "4:82: queues.all.max_messages.messages can't be true"),
    ("sequence: number", "sequence: {}", "4:49: queue 'all': sequence: it says nothing (name the property of the number: by)"),
    ("sequence: number", "sequence: number, activation: {pace: 7}", "4:76: queues.all.activation.pace must be a mapping, not 7 (such as {run_length: 7})"),
    ("sequence: number", "sequence: number, activation: {faults: Gone}", "4:78: queues.all.activation.faults must be a mapping, not 'Gone'"),
    ("policy: standard, group: key, sequence: number", "policy: unordered, group: {whole_queue: true}", "4:35: queue 'all': the whole queue can't be one order, because unordered keeps none (let its policy be fifo)"),
    ("types:", "schedules: {s: {cron: '* * * * *', type: order, body: 5}}\ntypes:", "1:55: schedules.s.body can't be 5 (text or bytes)"),
    ("where: number > 3, ", "", "6:10: subscriptions.every.where is missing"),
    ("where: number > 3", "where: 7", "6:18: subscriptions.every.where must be a filter, not 7 (put it in quotes)"),
    ("where: number > 3", "where: numbr > 3", "6:18: subscriptions.every.where, 1:1 of the filter: there is no property 'numb"),
    ("where: number > 3", "where: number > ", "6:18: subscriptions.every.where, 1:9 of the filter: the filter ends too"),
    ("where: number > 3", "where: number = 'a'", "6:18: subscriptions.every.where, 1:1 of the filter: "),
    ("where: number > 3", "where: upper(key) = 'A'", "6:18: subscriptions.every.where, 1:1 of the filter: a filter can't call"),
    ("where: number > 3", "where: body = 'a'", "6:18: subscriptions.every.where, 1:1 of the filter: a filter can't look at"),
    (", to: all", "", "6:10: subscriptions.every.to is missing"),
    (", to: all", ", to: al", "6:34: subscriptions.every.to: there is no queue 'al', neither here nor in the box (did you mean"),
    (", to: all", ", to: all, state: on", "6:46: subscriptions.every.state can't be 'on'"),
    (", to: all", ", to: all, starts: handle", "6:47: 'handle' doesn't name a function"),
    (", to: all", ", to: all, starts: 'a:b'", "6:47: starts needs correlate"),
    (", to: all", ", to: all, correlate: key", "6:50: correlate needs starts"),
    (", to: all", ", to: all, starts: 'a:b', correlate: []", "6:65: subscriptions.every.correlate must be a text or a list"),
    (", to: all", ", to: all, starts: 'a:b', correlate: [key, key]", "6:65: subscriptions.every.correlate must be a text or"),
    (", to: all", ", to: '${TO}'", "6:34: the environment variable TO is not set"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "told"), FAULTS)
def test_a_fault_is_told_once_with_its_place(old, new, told):
    found = [one.removeprefix("box.yaml:") for one in faults(small(old, new))]
    assert [one for one in found if one.startswith(told)], found
    # What else is told is told of a name that the fault took away.
    assert all("no message type declares" in one or "there is no" in one for one in found if not one.startswith(told))


def test_what_the_file_does_not_declare_may_be_in_the_box():
    text = """\
queues:
  all: {policy: unit_of_work, group: customer, sequence: number, last: kind = 'end', priority: rank}
subscriptions:
  every: {where: amount > 3, to: other}
"""
    assert faults(text, None) == []
    types = MessageType("order", {"customer": "string", "number": "long", "kind": "string", "rank": "long"})
    present = BoxFile(types=(types, MessageType("bill", {"amount": "long"})), queues=(Queue("other", Unordered()),))
    assert faults(text, present) == []
    assert [one.split(": ")[1] for one in faults(text, EMPTY)] == [
        *("queues.all.group", "queues.all.sequence", "queues.all.last", "queues.all.priority"),
        *("subscriptions.every.where, 1:1 of the filter", "subscriptions.every.to"),
    ]


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("elsewhere > ", "the filter ends too early"),
        ("elsewhere = 'a", "a quote is not closed"),
        ("upper(elsewhere) = 'a'", "a filter can't call upper"),
        ("elsewhere = 1 -- yes", "a filter has no comments"),
        ("number = 'a'", "1:1 of the filter"),
    ],
)
def test_a_filter_is_looked_at_as_far_as_its_names_are_known(where, told):
    assert told in fault(small("where: number > 3", f'where: "{where}"'), None)
    assert faults(small("where: number > 3", "where: elsewhere = 1 AND number = 'a'"), None) == []


def test_a_type_of_the_file_replaces_that_of_the_box():
    present = BoxFile(types=(MessageType("order", {"number": "string", "gone": "long"}),))
    assert faults(SMALL, present) == []
    assert "there is no property 'gone'" in fault(small("where: number > 3", "where: gone > 3"), present)


def test_one_name_has_one_type():
    bill = "\n  bill: {properties: {number: {path: $.n, type: string}, KEY: string}}\nqueues:"
    found = faults(small("\nqueues:", bill))
    assert found[:2] == [
        "box.yaml:3:23: property 'number' is string here and long in type 'order' (in a box, each property name has one type)",
        "box.yaml:3:58: 'KEY' is 'key' in type 'order', and Spark doesn't tell capitals apart (in a box, each property name has one type)",
    ]
    present = BoxFile(types=(MessageType("bill", {"number": "decimal(12,2)"}),))
    assert fault(SMALL, present).startswith("2:36: property 'number' is long here and decimal(12,2) in type 'bill'")


def test_names_of_a_type_with_a_fault_are_not_missed():
    text = small("key: $.key", "key: $.key, other: int")
    assert fault(text).startswith("2:43: 'int' is not a type")


def test_a_hole_is_skipped_only_where_there_is_a_time_for_it():
    place = FULL[: FULL.index("on_hole: skip")].count("\n") + 1
    told = fault("".join(line for line in FULL.splitlines(keepends=True) if "hole_timeout" not in line or "{" in line))
    assert told.startswith(f"{place - 1}:")
    assert 'on_hole="skip" requires a hole_timeout' in told


def test_all_faults_are_told_at_once_in_the_order_of_lines():
    text = FULL.replace("999999", "0").replace("$.customer.id", "$..id").replace("100s", "soon")
    text = text.replace("errors: continue", "errors: no").replace("7d", "-1").replace("amount >=", "amount >= >=")
    assert [int(one.split(":")[1]) for one in faults(text)] == [1, 4, 15, 17, 19, 24]
    with pytest.raises(DeclarationError, match=r"(?s)^box.yaml: the file has 6 faults:.*:1:32: .*:4:31: .*:24:"):
        box_file.load(written(text), {})
    with pytest.raises(DeclarationError, match=r"^box.yaml:1:32: locations.crm.last_number must"):
        box_file.load(written(FULL.replace("999999", "0")), {})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file is empty (`seriatim docs box-file` has an example)"),
        (b"- a\n", "1:1: a box file is a mapping (types: …, queues: …, subscriptions: …)"),
        (b"types: {}\n---\nqueues: {}\n", "2:1: this is not YAML"),
        (b"types: {a: {properties: caf\xe9}}", "1:28: the byte 0xe9 is not UTF-8"),
        (b" " * 2_000_001, "the file is larger than 2,000,000 bytes (is this a box file?)"),
    ],
)
def test_what_is_no_box_file_at_all(content, told):
    assert fault(content).lstrip().startswith(told)


def test_an_activation_names_classes_of_exceptions():
    text = "queues: {q: {policy: unordered, activation: {handler: 'a:b', faults: {transient: 'a:E', business: [LookupError, 'x:Y']}}}}"
    (found,) = box_file.examine(written(text), {})[0].queues
    assert found.activation == Activation("a:b", faults=FaultKinds(transient=["a:E"], business=["LookupError", "x:Y"]))
    (told,) = faults(text.replace("LookupError", "Nothing"))
    assert "business: 'Nothing' doesn't name a class of exceptions" in told


def test_a_port_keeps_its_variables():
    text = """queues: {q: {policy: unordered, activation: {port: 'http: {url: "https://$${HOST}/x"}', maximum: 2}}}"""
    (found,) = box_file.examine(written(text), {})[0].queues
    assert found.activation == Activation(maximum=2, port='http: {url: "https://${HOST}/x"}')
    (told,) = faults(text.replace("$$", "$"), environment={"HOST": "hush"})
    assert "the value of ${NAME} would be stored in the box (write $${NAME}: it is replaced by who works)" in told
    assert "hush" not in told


def test_an_activation_has_what_a_worker_has():
    text = "queues: {q: {policy: unordered, activation: {handler: 'a:b', pace: {run_length: 7, rate: 30/m}, mode: leased, lease: 1m}}}"
    (found,) = box_file.examine(written(text))[0].queues
    assert found.activation == Activation("a:b", pace=Pace(run_length=7, rate=0.5), mode="leased", lease=60.0)


def test_an_activation():
    text = (
        "subscriptions: {s: {where: 'TRUE', to: q, starts: 'orders.work:handle', correlate: [order_id, shipment_id]}}"
    )
    (found,) = box_file.examine(written(text))[0].subscriptions
    assert found == Subscription("s", "TRUE", "q", starts="orders.work:handle", correlate=["order_id", "shipment_id"])
    assert found.correlate == ("order_id", "shipment_id")
    one = box_file.examine(written("subscriptions: {s: {where: 'TRUE', to: q, starts: 'a:b', correlate: order_id}}"))[0]
    assert one.subscriptions == (Subscription("s", "TRUE", "q", starts="a:b", correlate=["order_id"]),)


@pytest.mark.parametrize("wrong", ["order_id", 7, [""], [1], ["a", "a"], {"a"}])
def test_what_an_activation_cannot_correlate_by(wrong):
    with pytest.raises(UsageError, match="correlate"):
        Subscription("s", "TRUE", "q", starts="a:b", correlate=wrong)


def test_a_missing_file():
    assert [str(one) for one in box_file.examine("absent.yaml")[1]] == ["absent.yaml: there is no such file"]


def test_environment_variables_are_put_in_and_never_shown():
    text = small("where: number > 3", "where: \"key = '${KEY}'\"")
    assert box_file.load(written(text), {"KEY": "k1"}).subscriptions[0].where == "key = 'k1'"
    told = faults(small("where: number > 3", "where: '${KEY} >'"), environment={"KEY": "hunter2"})
    assert "hunter2" not in str(told)
    assert "${KEY}" in str(told)


def test_a_pipeline_takes_no_keys_of_the_box():
    Path("inbox").mkdir()
    Path("pipeline.yaml").write_text("""\
name: small
receive:
  - location: crm
    source: {format: json, path: inbox}
    promote: {key: $.key}
route:
  - to: all
    resequence: {policy: fifo, group: key, errors: stop}
    deliver: {format: json, path: out}
""")
    (found,) = pipeline_file.check("pipeline.yaml")
    assert str(found).startswith("pipeline.yaml:8:44: unknown key 'errors' in route[0].resequence")


def test_the_examples_of_the_reference_are_right():
    examples = re.findall(r"^```yaml\n(.*?)^```", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert examples
    Path("order.schema.json").write_text("{}", encoding="utf-8")
    for text in examples:
        assert faults(text, None) == []
    assert faults(examples[0]) == []


def test_every_key_is_in_the_reference():
    text = REFERENCE.read_text(encoding="utf-8")
    for kind in (Location, MessageType, Queue, Subscription, BoxFile):
        for one in fields(kind):
            assert one.name in {"remarks", "expire_to"} or f"`{one.name}`" in text, f"{one.name} of {kind.__name__}"


#: Python's forms of values: of a call, a list of bytes, None and the truths.
PYTHON = re.compile(r"\b[A-Z][A-Za-z]*\(|\bNone\b|can't be (True|False)|\b[bu]'")


def each_field(kind: type[Declaration], title: str = "") -> Iterator[str]:
    for row in rows(kind):
        if row.name != "name":
            yield title + row.name
            if isinstance(row.kind, Value):
                yield from each_field(row.kind.kind, f"{title}{row.name}.")


@pytest.mark.parametrize("value", ["5", "2.5", "true", "[1]", "{zz: 1}", "{}", "''", "-1"])
@pytest.mark.parametrize("kind", [Queue, Activation])
def test_a_value_of_a_wrong_kind_is_answered_in_the_words_of_the_file(kind, value):
    for field in each_field(kind):
        path = field if kind is Queue else f"activation.{field}"
        keys = path.split(".")
        given = {"policy": "standard", "group": "key", "sequence": "number"}
        given[keys[0]] = "".join(f"{{{key}: " for key in keys[1:]) + value + "}" * (len(keys) - 1)
        listed = ", ".join(f"{key}: {one}" for key, one in given.items())
        for one in faults(small("policy: standard, group: key, sequence: number", listed)):
            assert not PYTHON.search(one.replace("WHOLE_QUEUE (in YAML", "")), one
