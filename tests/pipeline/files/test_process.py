"""`process` in a pipeline file: what it becomes, what it adds to the properties, and its faults."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from seriatim.pipeline.declared.pipeline import Process
from seriatim.pipeline.files import pipeline_file

STEPS = """\
def apply(messages): return messages
def two(messages, more): return messages
def maybe(messages, more=1): return messages
async def later(messages): return messages
def rows(messages): yield messages
class Kind: pass
"""
TEXT = """\
name: worked
receive:
  - location: crm
    source: {format: json, path: inbox}
    promote: {key: $.key, number: {path: $.n, type: long}, size: $.size}
process: {function: process_steps:apply, returns: {margin: double, size: long}}
route:
  - to: one
    process: {function: process_steps:maybe, returns: {label: string, body: string}, on_error: fail}
    resequence: {policy: standard, group: label, sequence: size}
    deliver: {format: json, path: out/one}
  - to: two
    resequence: {policy: fifo, group: key}
    deliver: {format: json, path: out/two}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "inbox").mkdir()
    (tmp_path / "process_steps.py").write_text(STEPS)
    yield
    sys.modules.pop("process_steps", None)


def written(text):
    path = Path("pipeline.yaml")
    path.write_text(text)
    return path


def faults(old, new):
    assert TEXT.count(old) == 1
    return [str(one).removeprefix("pipeline.yaml:") for one in pipeline_file.check(written(TEXT.replace(old, new)))]


def test_it_is_read_and_its_columns_can_be_ordered_by():
    pipeline = pipeline_file.load(written(TEXT))
    assert pipeline.process == Process("process_steps:apply", {"margin": "double", "size": "long"})
    one, two = pipeline.route
    assert one.process == Process("process_steps:maybe", {"label": "string", "body": "string"}, "fail")
    assert two.process is None


def test_functions_lie_beside_the_file(tmp_path, monkeypatch):
    path = written(TEXT.replace("path: inbox", f"path: {tmp_path}/inbox"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pipeline_file.check(tmp_path / path) == []
    # A copy, as in a checkpoint, has its functions where the original has them.
    copy = tmp_path / "elsewhere" / "copy.yaml"
    copy.write_bytes((tmp_path / path).read_bytes())
    (tmp_path / "out").mkdir()
    assert pipeline_file.load(copy, original=tmp_path / path).source_file == tmp_path / path


FIRST = "process: {function: process_steps:apply, returns: {margin: double, size: long}}\n"
UNDER = "    process: {function: process_steps:maybe, returns: {label: string, body: string}, on_error: fail}\n"
ORDERED = "    resequence: {policy: standard, group: label, sequence: size}\n"
FAULTS = [
    ("process_steps:apply", "process_step:apply", "6:21: process.function: there is no module 'process_step' (looked"),
    ("process_steps:apply", "process_steps:aply", "6:21: process.function: module 'process_steps' ("),
    ("process_steps:apply", "process_steps", "6:21: process.function: 'process_steps' doesn't name a function"),
    ("process_steps:apply", "process_steps:two", "6:21: process.function: process_steps:two can't be called with the"),
    (
        "process_steps:apply",
        "process_steps:later",
        "6:21: process.function: process_steps:later is not a plain function",
    ),
    ("process_steps:apply", "process_steps:rows", "6:21: process.function: process_steps:rows is not a plain function"),
    ("process_steps:apply", "process_steps:Kind", "6:21: process.function: process_steps:Kind is not a plain function"),
    ("function: process_steps:apply, ", "", "6:10: process.function is missing"),
    (
        "process: {function: process_steps:apply",
        "process: {fun: a, function: process_steps:apply",
        "6:11: unknown key 'fun'",
    ),
    (FIRST, "process: process_steps:apply\n", "6:10: process must be a mapping"),
    ("on_error: fail", "on_error: retry", "9:96: route[0].process.on_error can't be 'retry'"),
    ("margin: double", "margin: float", "6:60: 'float' is not a type (did you mean double?)"),
    ("margin: double", "margin: [double]", "6:60: process.returns.margin must be a single value"),
    ("margin: double", "ticket: string", "6:52: 'ticket' is the name of a column that seriatim adds"),
    ("margin: double", "Sequence: long", "6:52: 'Sequence' is the name of a column that seriatim adds"),
    ("margin: double", "_outputs: long", "6:52: '_outputs' can't be the name of a property"),
    ("margin: double", "body: long", "6:58: process.returns.body: a body can't be 'long' (binary or string)"),
    ("margin: double", "type: long", "6:58: the message's type is a string"),
    ("margin: double", "Key: string", "6:52: the columns 'key' and 'Key' differ only in capitals"),
    ("margin: double", "a: string, A: string", "6:63: the columns 'a' and 'A' differ only in capitals"),
    ("label: string", "number: string", "9:64: route[0].process.returns.number: 'number' is long already"),
    ("label: string", "margin: string", "9:64: route[0].process.returns.margin: 'margin' is double already"),
    (UNDER + ORDERED, ORDERED + UNDER, "10:5: route[0].process stands after resequence: the order in the file is the"),
    ("  - to: one\n" + UNDER, "  -" + UNDER[3:] + "    to: one\n", "8:5: route[0].process stands before to: the order"),
    (
        UNDER,
        UNDER + "    where: TRUE\n",
        "9:5: route[0].process stands before where: the order in the file is the order",
    ),
    ("    source", "    process: {}\n    source", "4:5: unknown key 'process' in receive[0]"),
]


@pytest.mark.parametrize(("old", "new", "told"), FAULTS)
def test_a_fault_is_told_with_its_place(old, new, told):
    found = faults(old, new)
    assert any(one.startswith(told) for one in found), found


def test_it_stands_before_route():
    moved = TEXT.replace(FIRST, "") + FIRST
    (found,) = [str(one) for one in pipeline_file.check(written(moved)) if "stands" in str(one)]
    assert found == (
        "pipeline.yaml:14:1: process stands after route: the order in the file is the order of execution "
        "(write it between receive and route)"
    )


def test_two_destinations_return_a_column_in_one_type():
    second = "  - to: two\n    process: {function: process_steps:apply, returns: {label: long}}\n"
    (found,) = faults("  - to: two\n", second)
    assert found.startswith("13:63: route[1].process.returns.label: 'label' is string already, and a destination can't")
