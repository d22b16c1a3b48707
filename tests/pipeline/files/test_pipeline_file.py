"""Reading pipeline files: good ones become values, faults are told with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from seriatim.errors import DeclarationError
from seriatim.kernel.groups.policy import BestEffort, Fifo, Standard, UnitOfWork, Unordered
from seriatim.pipeline.declared.pipeline import Deliver, StartFrom
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE, Group
from seriatim.pipeline.files import pipeline_file

FULL = """\
name: order-capture
checkpoint: state/order-capture
trigger: 250ms
clock: event
time: at
watermark: 10m
arrival: version
buckets: 8
set_aside: aside
spark: {spark.master: "local[2]", spark.ui.enabled: true}
receive:
  - location: crm
    source: {format: json, path: inbox/, options: {maxFilesPerTrigger: 10}}
    promote:
      customer_id: $.customer.id
      version: {path: $.version, type: long}
      amount: {path: "$['total sum']", type: 'decimal( 12, 2 )'}
      at: {path: "$.times[0].at", type: timestamp}
      type: $.kind
route:
  - to: fulfilment
    where: "TRUE"
    resequence:
      policy: standard
      group: {by: customer_id, default: nobody}
      sequence: version
      hole_timeout: 100s
      on_hole: skip
      start_from: {format: csv, path: first.csv, group: customer, next: number}
    deliver: {format: json, path: out/fulfilment, options: {compression: gzip}}
  - to: archive
    where: TRUE
    resequence: {policy: fifo, group: customer_id}
    deliver: {format: parquet, path: out/archive}
"""

SMALL = """\
name: small
receive:
  - location: crm
    source: {format: json, path: inbox}
    promote: {key: $.key, number: {path: $.n, type: long}, at: {path: $.at, type: timestamp}}
route:
  - to: all
    resequence: {policy: standard, group: key, sequence: number}
    deliver: {format: json, path: out/all}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inbox").mkdir()
    (tmp_path / "first.csv").write_text("customer,number\nc1,7\n")


def written(text: str | bytes) -> Path:
    path = Path("pipeline.yaml")
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def faults(text: str | bytes, environment: dict[str, str] | None = None) -> list[str]:
    return [str(fault) for fault in pipeline_file.check(written(text), environment or {})]


def fault(text: str | bytes, environment: dict[str, str] | None = None) -> str:
    found = faults(text, environment)
    assert len(found) == 1, found
    return found[0].removeprefix("pipeline.yaml:")


def small(old: str, new: str) -> str:
    assert SMALL.count(old) == 1
    return SMALL.replace(old, new)


def test_reads_the_example_of_the_design():
    pipeline = pipeline_file.load(written(FULL), {})
    assert (pipeline.name, pipeline.checkpoint, pipeline.trigger_s) == (
        "order-capture",
        Path("state/order-capture"),
        0.25,
    )
    assert (pipeline.clock, pipeline.time, pipeline.watermark_s, pipeline.arrival) == ("event", "at", 600.0, "version")
    assert (pipeline.buckets, pipeline.set_aside) == (8, Path("aside"))
    assert pipeline.spark == {"spark.master": "local[2]", "spark.ui.enabled": "true"}
    (received,) = pipeline.receive
    assert received.source.options == {"maxFilesPerTrigger": "10"}
    assert Promotion("amount", "$['total sum']", "decimal(12,2)") in received.promote
    fulfilment, archive = pipeline.route
    assert fulfilment.queue.policy == Standard(hole_timeout=100.0, on_hole="skip")
    assert fulfilment.queue.group.default == "nobody"
    assert fulfilment.start_from == StartFrom("csv", Path("first.csv"), "customer", "number")
    assert fulfilment.deliver == Deliver("json", Path("out/fulfilment"), {"compression": "gzip"})
    assert (archive.queue.policy, archive.where) == (Fifo(), "TRUE")


def test_what_is_left_out_has_defaults():
    pipeline = pipeline_file.load(written(SMALL))
    assert pipeline.checkpoint == Path(".seriatim/pipelines/small")
    assert (pipeline.trigger_s, pipeline.clock, pipeline.buckets, pipeline.set_aside) == (1.0, "processing", None, None)


@pytest.mark.parametrize(
    ("resequence", "policy"),
    [
        (
            "policy: best_effort, group: key, sequence: number, window: 50, buffer: 0.2",
            BestEffort(window=50, buffer=0.2),
        ),
        ("policy: best_effort, group: key, sequence: at, by: time", BestEffort(by="time")),
        ("policy: unit_of_work, group: key, sequence: number, size: number", UnitOfWork(size="number")),
        ("policy: standard, group: key, sequence: number, start: first", Standard(start="first")),
        ("policy: standard, group: location, sequence: number, increment: 10", Standard(increment=10)),
    ],
)
def test_reads_policies(resequence, policy):
    text = small("policy: standard, group: key, sequence: number", resequence)
    assert pipeline_file.load(written(text)).route[0].queue.policy == policy


def test_a_path_may_be_a_pattern():
    assert pipeline_file.load(written(small("path: inbox", "path: 'inbox/*.json'"))).receive[0].source.path == Path(
        "inbox/*.json"
    )


# What stands in the file, what replaces it, and how the one fault begins.
FAULTS = [
    ("name: small\n", "", "1:1: name is missing"),
    ("name: small", "name: a/b", "1:7: 'a/b' can't be a pipeline's name"),
    ("name: small", "name: 2024", "1:7: name must be text, not 2024 (put it in quotes)"),
    ("name: small", "name: small\nnam: x", "2:1: unknown key 'nam' (did you mean 'name'?)"),
    ("name: small", "name: small\nname: x", "2:1: 'name' is given twice (it stands in line 1 already)"),
    ("name: small", "name: small\ntrigger: 5 parsecs", "2:10: trigger: '5 parsecs' is not a duration"),
    ("name: small", "name: small\ntrigger: -1", "2:10: trigger: -1 is not a duration"),
    ("name: small", "name: small\ntrigger: true", "2:10: trigger: true is not a duration"),
    ("name: small", "name: small\ntrigger:", "2:1: trigger has no value"),
    ("name: small", "name: small\nbuckets: 0", "2:10: buckets must be a whole number from 1"),
    ("name: small", "name: small\nclock: wall", "2:8: clock can't be 'wall'"),
    ("name: small", "name: small\nclock: event", "2:8: clock: event needs time"),
    ("name: small", "name: small\nwatermark: 5m", "2:12: watermark is for clock: event"),
    ("name: small", "name: small\nclock: event\ntime: key", "3:7: time: 'key' is string, but has to be timestamp"),
    ("name: small", "name: small\narrival: nix", "2:10: arrival: no location promotes a property 'nix'"),
    (
        "name: small",
        "name: small\nspark: {master: local}",
        "2:9: 'master' is not a Spark setting (did you mean 'spark.",
    ),
    (
        "name: small",
        "name: small\nprocess: {function: a:b}",
        "2:1: process stands before receive: the order in the file",
    ),
    (
        "name: small",
        "name: small\nset_aside: out",
        "2:12: set_aside and route[0].deliver.path have folders inside each other",
    ),
    (
        "name: small",
        "name: small\ncheckpoint: out",
        "2:13: route[0].deliver.path and the checkpoint 'out' have folders",
    ),
    ("path: inbox", "path: inbax", "4:34: the input folder 'inbax' does not exist"),
    ("path: inbox", "path: first.csv", "4:34: 'first.csv' is a file"),
    ("path: inbox", "path: s3a://bucket/x", "4:34: 's3a://bucket/x': only paths of this machine"),
    ("path: inbox", "path: [inbox]", "4:34: receive[0].source.path must be a single value, not a list"),
    (
        "path: inbox",
        "path: inbox, optins: {}",
        "4:41: unknown key 'optins' in receive[0].source (did you mean 'options'?)",
    ),
    ("path: inbox", "path: inbox, options: {a: [1]}", "4:54: receive[0].source.options.a must be a single value"),
    ("path: inbox", "path: inbox, options: {a: null}", "4:51: receive[0].source.options.a has no value"),
    ("path: inbox", "path: inbox, schema: a int", "4:49: JSON is read as it is and takes no schema"),
    ("source: {format: json,", "source: {format: jsn,", "4:22: the format 'jsn' is not known (did you mean 'json'?)"),
    ("source: {format: json,", "source: {format: kafka,", "4:22: the format 'kafka' needs id, the columns that"),
    ("key: $.key", "key: key", "5:20: 'key' is not a path into JSON (write $.name"),
    ("key: $.key", "key: $.a[*]", "5:23: this is not YAML"),
    ("key: $.key", "key: '$.a[*]'", "5:20: '$.a[*]' is not a path into JSON"),
    ("key: $.key", "key: {path: $.key, typ: long}", "5:34: unknown key 'typ' in receive[0].promote.key"),
    ("key: $.key", "key: {path: $.key, type: int}", "5:40: 'int' is not a type (did you mean long?)"),
    (
        "key: $.key",
        "key: {path: $.key, type: decimal}",
        "5:40: 'decimal' is not a type (write decimal(precision,scale)",
    ),
    (
        "type: long",
        "type: decimal(12,2)",
        "5:53: 'decimal(12' is not a type (inside { } put it in quotes: 'decimal(12,2)')",
    ),
    ("key: $.key", "key: {path: $.key, type: 'decimal(39,2)'}", "5:40: 'decimal(39,2)': the precision is 1 to 38"),
    ("key: $.key", "key: {path: $.key, type: 'decimal(2,3)'}", "5:40: 'decimal(2,3)': the precision is 1 to 38"),
    ("key: $.key", "key: $.key, ticket: $.t", "5:27: 'ticket' is the name of a column that seriatim adds"),
    ("key: $.key", "key: $.key, Sequence: $.s", "5:27: 'Sequence' is the name of a column that seriatim adds"),
    ("key: $.key", "key: $.key, _x: $.s", "5:27: '_x' can't be the name of a property"),
    ("key: $.key", "key: $.key, Key: $.s", "5:32: the properties 'key' and 'Key' differ only in capitals"),
    ("key: $.key", "key: $.key, type: {path: $.t, type: long}", "5:51: the message's type is a string"),
    ("to: all", "to: 7", "7:9: route[0].to must be text, not 7"),
    (
        "to: all",
        "to: all\n    where: amount > 3",
        "8:12: route[0].where, 1:1 of the filter: there is no property 'amount' (there are at, epoch, key, location, message_id, number, received_at, ticket, type)",
    ),
    ("to: all", "to: all\n    split: {}", "8:5: unknown key 'split' in route[0]"),
    ("policy: standard, ", "", "8:17: route[0].resequence.policy is missing"),
    (
        "policy: standard",
        "policy: Standard",
        "8:26: route[0].resequence.policy can't be 'Standard' (did you mean 'stand",
    ),
    ("group: key, ", "", "8:26: queue 'all': standard needs a group"),
    (
        "sequence: number",
        "sequence: numbr",
        "8:58: route[0].resequence.sequence: no location promotes a property 'numbr'",
    ),
    ("sequence: number", "sequence: key", "8:58: route[0].resequence.sequence: 'key' is string, but has to be long"),
    ("sequence: number", "sequence: number, window: 5", "8:66: standard takes no window (best_effort does)"),
    (
        "group: key",
        "group: {by: key, opens: \"kez = 'x'\"}",
        "8:60: route[0].resequence.group.opens, 1:1 of the filter: there is no property 'kez'",
    ),
    (
        "policy: standard, group: key",
        "policy: best_effort, group: {by: key, closes: \"key = 'x'\"}",
        "8:64: queue 'all': opens and closes are for Fifo and Standard, not for BestEffort",
    ),
    ("group: key", "group: {by: key, closes: 7}", "8:61: route[0].resequence.group.closes must be text, not 7"),
    (
        "group: key",
        "group: {by: key, unopened_timeout: 5s}",
        "8:71: queue 'all': unopened_timeout is for groups that a message opens",
    ),
    (
        "group: key",
        "group: {by: key, expire_after: 0}",
        "8:67: route[0].resequence.group.expire_after can't be 0 (more than 0",
    ),
    ("group: key", "group: {by: key, expire_after: 1y}", "8:67: route[0].resequence.group.expire_after: '1y'"),
    ("group: key", "group: {by: key, expire_to: nothing}", "8:64: expire_to says what expired groups"),
    (
        "group: key",
        "group: {by: key, expire_after: 1d, expire_to: dust}",
        "8:82: route[0].resequence.group.expire_to can't be 'dust'",
    ),
    (
        "sequence: number",
        "sequence: number, hole_timout: 5",
        "8:66: unknown key 'hole_timout' in route[0].resequence (did",
    ),
    (
        "sequence: number",
        "sequence: number, hole_timeout: 5 sec",
        "8:80: Standard: hole_timeout: '5 sec' is not a duration",
    ),
    ("sequence: number", "sequence: number, increment: 0", "8:77: Standard: increment must be between 1 and"),
    ("sequence: number", "sequence: number, late: drop", "8:72: Standard: late must be one of set_aside, deliver"),
    (
        "sequence: number",
        "sequence: number, compare: [amount]",
        "8:75: route[0].resequence.compare: no location promotes a property 'amount'",
    ),
    ("sequence: number", "sequence: number, remember: 2000", "8:76: Standard: remember must be between 0 and 1024"),
    (
        "policy: standard",
        "policy: best_effort, window: 5s, max_rows: 3",
        "8:47: BestEffort takes window or max_rows, not both",
    ),
    (
        "policy: standard",
        "policy: best_effort, by: time",
        "8:71: route[0].resequence.sequence: 'number' is long, but has",
    ),
    ("policy: standard", "policy: unit_of_work", "8:26: UnitOfWork needs exactly one of size and last"),
    (
        "policy: standard",
        "policy: unit_of_work, last: numbr = 3",
        "8:46: route[0].resequence.last, 1:1 of the filter: there is no property 'numbr'",
    ),
    (
        "policy: standard",
        "policy: unit_of_work, size: key",
        "8:46: route[0].resequence.size: 'key' is string, but has to be",
    ),
    ("deliver: {format: json, path: out/all}", "deliver: {queue: q, path: out/all}", "9:25: unknown key 'path'"),
    ("deliver: {format: json, path: out/all}", "", "7:5: route[0].deliver is missing"),
    (
        "path: out/all",
        "path: inbox/out",
        "9:35: route[0].deliver.path and receive[0].source.path have folders inside each other",
    ),
    (
        "format: json, path: out/all",
        "format: jsn, path: out/all",
        "9:23: there is no format 'jsn' (did you mean 'json'?)",
    ),
    ("path: out/all", "path: 'out/*'", "9:35: 'out/*' is a pattern; a folder is needed to write to"),
    ("path: out/all", "path: '${OUT}'", "9:35: the environment variable OUT is not set"),
    ("path: out/all", "path: '${no name}'", "9:35: '${no name}' doesn't name an environment variable"),
    ("path: out/all", "path: !secret out", "9:35: the tag !secret is not known"),
    ("path: out/all", f"path: {'9' * 100_000}", f"9:35: '{'9' * 300}"),
    ("path: out/all", f"path: 0x{'f' * 100_000}", f"9:35: '0x{'f' * 300}"),
    ("path: out/all", f"path: [0x{'f' * 100_000}]", f"9:36: '0x{'f' * 300}"),
]


@pytest.mark.parametrize(("old", "new", "told"), FAULTS)
def test_a_fault_is_told_with_its_place(old, new, told):
    found = faults(small(old, new))
    assert any(one.startswith(f"pipeline.yaml:{told}") for one in found), found


@pytest.mark.parametrize(
    ("port", "path", "options"),
    [
        ("format: json, path: first.csv", "first.csv", {}),
        ("format: orc, path: out/all, options: {compression: zstd}", "out/all", {"compression": "zstd"}),
        ("format: delta, path: 's3a://lake/orders'", None, {"path": "s3a://lake/orders"}),
        ("format: jdbc, options: {url: 'jdbc:postgresql:orders'}", None, {"url": "jdbc:postgresql:orders"}),
        ("format: org.example.Sink", None, {}),
    ],
)
def test_a_port_may_be_any_sink_and_needs_to_work_only_later(port, path, options):
    deliver = pipeline_file.load(written(small("format: json, path: out/all", port))).route[0].deliver
    assert (deliver.path and str(deliver.path), deliver.options) == (path, options)


def test_a_destination_may_drop_what_it_gets():
    dropping = small("deliver: {format: json, path: out/all}", "deliver: drop")
    (one,) = pipeline_file.load(written(dropping)).route
    assert (one.deliver, one.queue.policy, one.queue.group.by) == (Deliver("drop"), Standard(), "key")
    loose = dropping.replace("    resequence: {policy: standard, group: key, sequence: number}\n", "")
    (one,) = pipeline_file.load(written(loose)).route
    assert (one.deliver, one.queue) == (Deliver("drop"), Queue("all", Unordered()))
    assert faults(dropping.replace("deliver: drop", "deliver: dropped")) == [
        "pipeline.yaml:9:14: route[0].deliver must be a mapping, or drop"
    ]
    assert faults(loose.replace("deliver: drop", "deliver: dropped"))[0].endswith("route[0].resequence is missing")


@pytest.mark.dear
def test_ports_of_many_destinations_are_compared():
    entry = "  - {to: d%d, resequence: {policy: fifo, group: key}, deliver: {format: json, path: out/d%d}}\n"
    head = SMALL.partition("route:")[0]
    text = f"{head}route:\n" + "".join(entry % (n, n) for n in range(200))
    assert len(pipeline_file.load(written(text)).route) == 200
    (same,) = faults(text + entry % (200, 7))
    assert "has the same folder as route[7].deliver.path" in same
    (inside,) = faults(text + entry.replace("out/d%d", "out/d%d/x") % (200, 7))
    assert "and route[7].deliver.path have folders inside each other" in inside


DOCUMENTS = [
    (b"", "the file is empty"),
    (b"# only this\n", "the file is empty"),
    (b"- a\n- b\n", "1:1: a pipeline file is a mapping"),
    (b"just text", "1:1: a pipeline file is a mapping"),
    (b"name: a\nreceive:\n\t- location: b\n", "3:1: this is not YAML: found character '\\t'"),
    (b"name: a\nnote: caf\xe9\n", "2:10: the byte 0xe9 is not UTF-8"),
    (b"name: a\x07b\n", "1:1: the character #x0007 is not allowed"),
    (b"name: a: b\n", "1:8: this is not YAML: mapping values are not allowed"),
    (b"name: [a\n", "2:1: this is not YAML: expected ',' or ']', but got the end of the file"),
    (b"{", "1:2: this is not YAML: expected a value, but found the end of the file"),
    (b"name: a\n---\nname: b\n", "2:1: this is not YAML: it has a second document (a file is one document)"),
    (
        b'"a"\nimport b\n',
        "2:1: this is not YAML: expected the beginning of a document, but found text (a pipeline file is a",
    ),
    (
        b'{"a": 1}\n{"b": 2}\n',
        "2:1: this is not YAML: expected the beginning of a document, but found '{' (a pipeline file is",
    ),
    (
        b"a:\n  - b\n  c: d\n",
        "3:3: this is not YAML: expected the end of a block, but found a key (check the indentation and",
    ),
    (
        b"a: 'it's'\n",
        "1:8: this is not YAML: expected the end of a block, but found text (check the indentation and the quotes)",
    ),
    (b"a: &a [*a]\n", "1:4: this is not YAML: it is nested more than 32 levels deep"),
    (b"a:\n  " + b"[" * 1_000_000, "2:35: this is not YAML: it is nested more than 32 levels deep"),
    (b"- " * 1_000_000, "1:67: this is not YAML: it is nested more than 32 levels deep"),
    (b"a: *b\n", "1:4: this is not YAML: found undefined alias"),
    (b"a" * 2_000_001, "the file is larger than"),
]


@pytest.mark.parametrize(("content", "told"), DOCUMENTS)
def test_what_is_no_pipeline_file_at_all(content, told):
    assert fault(content).lstrip().startswith(told)


@pytest.mark.dear
def test_aliases_that_blow_up_are_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "1:34: this is not YAML: it has more than 200,000 keys and values" in fault("\n".join(lines))


def test_a_missing_file_and_a_folder():
    (absent,) = pipeline_file.check("absent.yaml")
    assert str(absent) == "absent.yaml: there is no such file"
    (folder,) = pipeline_file.check("inbox")
    assert folder.what.startswith("the file can't be read")


def test_all_faults_are_told_at_once_in_the_order_of_lines():
    text = FULL.replace("trigger: 250ms", "trigger: soon").replace("path: inbox/", "path: outbox/")
    text = text.replace("on_hole: skip", "on_hole: jump").replace("to: archive", "to: fulfilment")
    lines = [int(one.split(":")[1]) for one in faults(text)]
    assert lines == [3, 13, 28, 31]


def test_several_parameters_of_one_policy_are_all_told():
    found = faults(small("sequence: number", "sequence: number, increment: 0, capacity: many, late: drop"))
    assert [one.split(": ")[2].split()[0] for one in found] == ["increment", "capacity", "late"]


def test_load_raises_one_error_for_all_faults():
    with pytest.raises(DeclarationError, match=r"(?s)the file has 2 faults.*:3:10: trigger.*:4:8: clock"):
        pipeline_file.load(
            written(FULL.replace("trigger: 250ms", "trigger: soon").replace("clock: event", "clock: wall")), {}
        )


def test_locations_that_disagree():
    other = "  - location: {0}\n    source: {{format: csv, path: inbox}}\n    promote: {{key: {{path: k, type: long}}, number: {{path: n, type: long}}}}\n"
    text = SMALL.replace("route:", other.format("erp") + "route:")
    assert "property 'key' is long here and string at another location" in fault(text)
    text = SMALL.replace("route:", other.format("crm").replace("{path: k, type: long}", "k") + "route:")
    assert "location 'crm' is given twice" in fault(text)
    text = SMALL.replace(
        "route:", "  - location: erp\n    source: {format: csv, path: inbox}\n    promote: {key: k}\nroute:"
    )
    assert "location 'erp' doesn't promote 'number'" in fault(text)
    assert "csv has columns, not paths" in fault(text.replace("{key: k}", "{key: $.k, number: {path: n, type: long}}"))


def test_start_from_must_be_there_and_fit():
    text = small("sequence: number", "sequence: number, start_from: {format: csv, path: gone.csv}")
    assert fault(text).startswith("8:98: 'gone.csv' does not exist")
    text = small("policy: standard", "policy: fifo, start_from: {format: csv, path: first.csv}")
    assert "fifo has no first number" in fault(text)


def test_environment_variables_are_put_in():
    text = small("path: out/all", "path: '${ROOT}/all', options: {dateFormat: '$${x}'}")
    port = pipeline_file.load(written(text), {"ROOT": "elsewhere"}).route[0].deliver
    assert (port.path, port.options) == (Path("elsewhere/all"), {"dateFormat": "${x}"})


@pytest.mark.parametrize("secret", ["hunter2", "it's \\ \n odd", "x"])
def test_what_an_environment_variable_holds_is_never_shown(secret):
    text = small("name: small", "name: '${SECRET}!'\ntrigger: '${SECRET}'\nclock: '${SECRET}'")
    found = faults(text, {"SECRET": secret})
    assert len(found) == 3
    for one in found:
        told = one.removeprefix("pipeline.yaml")
        assert "${SECRET}" in told
        assert secret not in told.replace("${SECRET}", "")


def test_a_long_value_is_not_quoted_whole():
    assert len(fault(f"{SMALL}trigger: {'x' * 5000}\n")) < 1000


def test_more_destinations_than_can_be_run_are_refused():
    head, entry = SMALL.split("  - to: all\n")
    entries = "".join(f"  - to: d{n}\n{entry.replace('out/all', f'out/{n}')}" for n in range(1001))
    assert "a pipeline has at most 1,000 destinations" in fault(head + entries)


def test_a_hole_is_skipped_only_where_there_is_a_time_for_it():
    line = next(one for one in FULL.splitlines(keepends=True) if "hole_timeout" in one)
    told = fault(FULL.replace(line, ""))
    assert 'on_hole="skip" requires a hole_timeout' in told
    assert "add a hole_timeout" in told


def test_faults_of_a_location_hide_none_of_the_destinations():
    text = small("path: inbox}", "pth: inbox}").replace("type: long", "type: lon")
    text = text.replace("group: key", "group: kye")
    text += "  - {to: b, resequence: {policy: standrd, group: kxy}, deliver: {format: jsn, path: x}}\n"
    found = [one.removeprefix("pipeline.yaml:") for one in faults(text)]
    for told in (
        "receive[0].source.path is missing",
        "unknown key 'pth'",
        "'lon' is not a type (did you mean 'long'?)",
        "no location promotes a property 'kye' (did you mean 'key'?)",
        "route[1].resequence.policy can't be 'standrd'",
        "route[1].resequence.group: no location promotes a property 'kxy' (did you mean 'key'?)",
        "there is no format 'jsn'",
    ):
        assert any(told in one for one in found), (told, found)
    # The type of the number isn't known, so nothing is said of it.
    assert not [one for one in found if "'number'" in one]


def test_a_filter_is_read_where_a_location_has_a_fault():
    text = small("path: inbox}", "pth: inbox}").replace("to: all", "to: all\n    where: keey = 'a'")
    assert any("there is no property 'keey'" in one for one in faults(text))


def test_a_destination_may_be_one_order():
    whole = small("group: key", "group: {whole_queue: true}")
    (one,) = pipeline_file.load(written(whole)).route
    assert one.queue == Queue("all", Standard(), Group(WHOLE_QUEUE, default="all"), "number")
    told = "route[0].resequence.group must be a property's name, or {whole_queue: true}"
    assert told in fault(whole.replace("true", "false"))
    assert "unknown key 'whole' in route[0].resequence.group" in " ".join(faults(whole.replace("whole_queue", "whole")))
    assert "no location promotes a property '*'" not in fault(whole.replace("policy: standard", "policy: unordered"))


KAFKA = small("{format: json, path: inbox}", "SOURCE").replace("{format: json, path: out/all}", "SINK")
GOOD_SOURCE = "{format: kafka, options: {kafka.bootstrap.servers: 'k:9092', subscribe: a}, id: [topic, partition, offset], body: value}"
GOOD_SINK = "{format: kafka, options: {kafka.bootstrap.servers: 'k:9092', topic: b}}"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("kafka.bootstrap.servers: 'k:9092', subscribe", "subscribe", "Kafka needs kafka.bootstrap.servers"),
        (", subscribe: a", "", "Kafka's source takes one of subscribe, subscribePattern, assign, and has none"),
        ("subscribe: a", "subscribe: a, assign: b", "Kafka's source takes one of subscribe, subscribePattern, assign, and has subscribe and assign"),
        ("kafka.bootstrap.servers: 'k:9092', topic", "topic", "Kafka needs kafka.bootstrap.servers"),
        (", topic: b", "", "Kafka's sink needs a topic (such as options: {topic: ordered})"),
    ],
)  # fmt: skip
def test_kafka_is_told_what_it_lacks(old, new, told):
    text = KAFKA.replace("SOURCE", GOOD_SOURCE).replace("SINK", GOOD_SINK)
    assert text.count(old) == 1
    assert told in fault(text.replace(old, new))


def test_kafka_without_a_connector_is_remarked():
    text = KAFKA.replace("SOURCE", GOOD_SOURCE).replace("SINK", GOOD_SINK)
    (remark,) = pipeline_file.load(written(text)).remarks
    assert "spark names no connector for Kafka" in remark
    with_one = text + "spark: {spark.jars.packages: 'org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0'}\n"
    assert pipeline_file.load(written(with_one)).remarks == ()


def test_a_checkpoint_s_file_of_an_earlier_version_is_read():
    """What belongs to groups stood beside them. The batch in flight is finished under such a file."""
    kept = written(
        small(
            "group: key",
            "group: key, default_group: nobody, opens: \"key = 'in'\", unopened_timeout: 1h, expire_after: 90d",
        )
    )
    pipeline, found = pipeline_file.examine(kept, {}, original=Path("new.yaml"))
    assert found == []
    group = Group("key", default="nobody", opens="key = 'in'", unopened_timeout="1h", expire_after="90d")
    assert pipeline.route[0].queue.group == group
    whole = written(small("group: key", "group: {whole_queue: true}, expire_after: 1d"))
    assert pipeline_file.examine(whole, {}, original=Path("new.yaml"))[0].route[0].queue.group == Group(
        WHOLE_QUEUE, expire_after="1d"
    )
