"""One stage from text to packets, and the stages one after another: the same messages, tickets and reasons, column by column."""

from __future__ import annotations

import json
import os
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from examples.receipt import feed
from examples.run import laid_out

from seriatim.cli.commands import demo
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines import checkpoint
from seriatim.runtime.pipelines.demo_feed import generate
from seriatim.runtime.pipelines.run import run
from seriatim.spark.front.chosen import why_apart
from tests.delivered import table_of
from tests.own_modules import work_in
from tests.real.test_kraken import scrambled
from tests.spark.receive.test_json_columns import ODD, PLAIN

EXAMPLES = Path(__file__).parents[3] / "examples"
#: What an example says that needs stages of their own; without it its feed goes both ways.
APART = ("process:", "clock:", "time:", "watermark:")
NEVER_IN_ONE_STAGE = {
    "feeds": "says what its numbers mean",
    "quotes": "isn't of text files",
    "shipments": "scans:read reads the messages",
    "topic": "isn't of text files",
}
pytestmark = pytest.mark.usefixtures("spark")

LOCATIONS = """
name: wide
checkpoint: checkpoint
buckets: 3
trigger: 0s
receive:
  - location: crm
    source: {format: json, path: crm, options: {maxFilesPerTrigger: 2}}
    promote: &promoted
      type: $.kind
      customer: $.customer.id
      name: [$.name, $.customer.name]
      version: {path: $.version, type: long}
      price: {path: $.price, type: double}
      paid: {path: $.paid, type: boolean}
      at: {path: $.at, type: timestamp}
      amount: {path: $.amount, type: "decimal(20,2)"}
      size: {path: $.size, type: long}
  - location: shop
    source: {format: json, path: shop, options: {maxFilesPerTrigger: 1}}
    promote: *promoted
    stamp: {last_number: 7}
  - location: paper
    source: {format: csv, path: paper}
    promote: {customer: who, version: {path: number, type: long}, size: {path: pieces, type: long}, name: who, at: {path: time, type: timestamp}}
  - location: desk
    source: {format: json, path: desk}
    split: $.lines
    promote:
      customer: {path: $.customer, envelope: true}
      version: {path: $.number, type: long}
      name: $.name
      at: {path: $.at, type: timestamp}
      size: {path: $.size, type: long}
  - location: free
    source: {format: json, path: free}
    promote:
      customer: $.customer.id
      version: {path: $.version, type: long}
      name: $.name
      at: {path: $.at, type: timestamp}
      size: {path: $.size, type: long}
route:
"""
DESTINATIONS = {
    "all": "where: TRUE, resequence: {policy: standard, group: customer, sequence: version}",
    "fifo": "where: version > 1, resequence: {policy: fifo, group: {by: customer, default: others}}",
    "whole": "where: \"location = 'shop'\", resequence: {policy: fifo, group: '*'}",
    "by-number": "where: \"type LIKE 'o%' OR paid\", resequence: {policy: fifo, group: version}",
    "loose": "where: price >= 7.5 OR customer IS NULL, resequence: {policy: unordered}",
    "window": "where: name IS NULL, resequence: {policy: best_effort, group: customer, sequence: version, window: 1h}",
    "times": "where: at IS NOT NULL, resequence: {policy: best_effort, by: time, group: customer, sequence: at, window: 1h}",
    "sets": "where: size IS NOT NULL, resequence: {policy: unit_of_work, group: customer, sequence: version, size: size, timeout: 1h}",
    "last": "where: \"location <> 'paper'\", resequence: {policy: unit_of_work, group: customer, sequence: version, last: paid, timeout: 1h}",
    "last-from-0": "where: paid, resequence: {policy: unit_of_work, start: 0, group: customer, sequence: version, last: paid}",
    "stays": "where: TRUE, resequence: {policy: fifo, group: {by: customer, opens: version = 1, closes: version = 3}}",
    "parts": "where: part IS NOT NULL, resequence: {policy: unit_of_work, group: parent_id, sequence: part, size: parts, timeout: 1h}",
    "files": "where: \"message_id LIKE '%1' AND received_at > TIMESTAMP '2020-01-01'\", resequence: {policy: standard, group: name, sequence: version, start: first}",
    "exact": "where: amount < 10.5, resequence: {policy: standard, group: customer, sequence: version}",
}
FORMATS = ("json", "parquet", "csv")


def wide(folder, _):
    """A pipeline of all that one stage takes, and feeds with every kind of odd row."""
    lines = [LOCATIONS]
    for number, (name, rest) in enumerate(DESTINATIONS.items()):
        format_ = FORMATS[number % 2]
        lines.append(f"  - {{to: {name}, {rest}, deliver: {{format: {format_}, path: out/{name}}}}}\n")
    (folder / "pipeline.yaml").write_text("".join(lines))
    made = [
        json.dumps(
            {
                "kind": ("order", "bill", None)[n % 3],
                "customer": {"id": f"c{n % 5}", "name": f"n{n % 2}"},
                "version": n // 5 + 1,
                "price": n / 2,
                "paid": n % 4 == 0,
                "at": f"2024-05-01T12:{n % 60:02}:00+02:00" if n % 7 else None,
                "amount": f"{n}.50",
            }
        ).encode()
        for n in range(300)
    ]
    odd = [*PLAIN, *ODD]
    nul = [b'{"customer":{"id":"a\\u0000b"},"version":1}', b'{"customer":{"id":"' + b"k" * 3000 + b'"},"version":1}']
    highest = b'{"customer":{"id":"c-highest"},"version":9223372036854775807,"paid":true}'
    put(folder, "crm/a.json", [*made[:150], *odd, highest])
    put(folder, "crm/b.json", [*odd, *made[100:200], *nul])
    put(folder, "crm/c d%.json", [*made[150:], b"", *made[:20]], end=b"\r\n")
    put(folder, "crm/e.json", [])
    put(folder, "crm/f.json", made[200:])
    put(folder, "shop/a.json", made[::3])
    put(folder, "shop/b.json", [*nul, *made[1::3], b"odd"])
    put(
        folder,
        "paper/a.csv",
        [b"who,number,pieces,time", *(f"c{n % 9},{n // 9 + 1},3,".encode() for n in range(40)), b"x"],
    )
    desk = [{"customer": f"c{n}", "lines": [{"number": m} for m in range(1, n + 1)]} for n in range(6)]
    put(folder, "desk/a.json", [json.dumps(one).encode() for one in desk])
    put(folder, "free/a.json", made[:70])


def put(folder, name, rows, end=b"\n"):
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"".join(row + end for row in rows))
    # Files of one moment are in order of their names.
    moment = 1_700_000_000 + len(list(folder.glob("*/*"))) // 2
    os.utime(file, (moment, moment))


def example(name, *replaced):
    """Lay an example out, without the lines for which its messages would go through stages of their own."""

    def lay_out(folder, _):
        laid_out(name, folder)
        in_one_stage(folder / "pipeline.yaml", *replaced)

    return lay_out


def in_one_stage(file, *replaced):
    text = "".join(line for line in file.read_text().splitlines(keepends=True) if not line.startswith(APART))
    for before, after in replaced:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)


def first_project(folder, _):
    shutil.copytree(files("seriatim.cli") / "project", folder, dirs_exist_ok=True)


def demo_feed(folder, _):
    demo._write(folder, generate(2_000, 7))
    in_one_stage(folder / "pipeline.yaml")


def kraken(folder, shared):
    scrambled(shared, folder)
    shutil.copy(EXAMPLES / "kraken" / "pipeline.yaml", folder)


def receipt(folder, shared):
    feed.write(feed.read(shared / "data/receipt.csv"), folder / "inbox")
    shutil.copy(EXAMPLES / "receipt" / "pipeline.yaml", folder)
    in_one_stage(folder / "pipeline.yaml")


def outcome(folder):
    """What a run of the pipeline has brought: accounts, and all rows of all places with all their columns."""
    pipeline = load("pipeline.yaml")
    summary = run(pipeline, finish=True)
    found = {"accounts": summary.accounts, "routing": summary.routing, "held": summary.held}
    for one in pipeline.route:
        port = one.deliver
        rows = table_of(port.path, port.format).to_pylist() if list(port.path.glob("batch=*/[!._]*")) else []
        by_group = {}
        for row in rows:
            by_group.setdefault(row["group"], []).append(row["message_id"])
        found[f"order of {one.queue.name}"] = by_group if one.queue.group.by else None
        found[one.queue.name] = sorted(map(told, rows))
    aside = pipeline.set_aside or pipeline.checkpoint / "set-aside"
    for place in (aside, pipeline.unrouted or pipeline.checkpoint / "unrouted"):
        lines = [line for file in sorted(place.glob("batch=*/*.json")) for line in file.read_text().splitlines()]
        found[place.name] = sorted(told(json.loads(line)) for line in lines)
    return found


def told(row):
    return json.dumps({name: value for name, value in row.items() if value is not None}, default=str, sort_keys=True)


FEEDS = {
    "wide": wide,
    "changes": example("changes"),
    "demo": demo_feed,
    "kraken": kraken,
    "orders": example("orders", (" AND margin > 0", "")),
    "project": first_project,
    "receipt": receipt,
    "split-and-gather": example("split-and-gather"),
}


@pytest.mark.parametrize("lay_out", FEEDS.values(), ids=FEEDS)
def test_one_stage_brings_what_the_stages_bring_one_after_another(lay_out, tmp_path, monkeypatch, request):
    found = {}
    needs_data = lay_out in (kraken, receipt)
    for way, reason in (("front", None), ("apart", "a test")):
        folder = tmp_path / way
        folder.mkdir()
        lay_out(folder, request.getfixturevalue("shared") if needs_data else None)
        monkeypatch.chdir(folder)
        assert why_apart(load("pipeline.yaml")) is None
        monkeypatch.setattr(checkpoint, "why_apart", lambda _, reason=reason: reason)
        found[way] = outcome(folder)
        monkeypatch.undo()
    assert found["front"].keys() == found["apart"].keys()
    for what, value in found["apart"].items():
        assert found["front"][what] == value, what
    assert sum(map(len, (rows for rows in found["front"].values() if isinstance(rows, list)))) > 5


@pytest.mark.parametrize("name", sorted(file.parent.name for file in EXAMPLES.glob("*/pipeline.yaml")))
def test_an_example_that_is_not_compared_cannot_go_both_ways(name, tmp_path, monkeypatch):
    if name in FEEDS:
        return
    laid_out(name, tmp_path / name)
    (tmp_path / name / "inbox").mkdir(exist_ok=True)
    in_one_stage(tmp_path / name / "pipeline.yaml")
    work_in(tmp_path / name, monkeypatch)
    monkeypatch.setenv("QUOTES_DSN", "postgresql:///quotes")
    monkeypatch.setenv("QUOTES_SCHEMA", "quotes")
    assert NEVER_IN_ONE_STAGE[name] in why_apart(load("pipeline.yaml"))
