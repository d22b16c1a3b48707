"""``seriatim check`` as a user sees it: lines, streams, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.errors import DeclarationError, EnvironmentProblem, InvariantBroken, SeriatimError, UsageError

GOOD = """\
name: small
receive:
  - location: crm
    source: {format: json, path: inbox}
    promote: {key: $.key, number: {path: $.n, type: long}}
route:
  - to: all
    resequence: {policy: standard, group: key, sequence: number}
    deliver: {format: json, path: out/all}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inbox").mkdir()
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(
        GOOD.replace("standard", "standart").replace("json, path: out", "jsn, path: out")
    )


def called(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_a_file_of_the_other_kind_is_known():
    Path("box.yaml").write_text("queues: {all: {policy: unordered}}\n")
    result = called("check", "box.yaml")
    assert result.exit_code == 2
    assert "box.yaml:1:1: unknown key 'queues' (it belongs in a box file, for seriatim box apply)" in result.stderr


def test_says_what_a_good_file_does():
    result = called("check", "good.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "good.yaml: ok"
    assert "all: standard, json files in out/all, exactly once" in result.stdout
    assert result.stderr == ""


def test_says_what_is_dropped():
    Path("drop.yaml").write_text(GOOD.replace("deliver: {format: json, path: out/all}", "deliver: drop"))
    result = called("check", "drop.yaml")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "  deliver  all: standard, dropped")
    (port,) = json.loads(called("check", "drop.yaml", "--json").stdout)["ports"]
    assert (port["format"], port["path"], port["guarantee"]) == ("drop", None, "exactly once")


def test_tells_every_fault_with_its_line():
    result = called("check", "bad.yaml")
    assert result.exit_code == 2
    assert result.stdout == ""
    first, second, count = result.stderr.splitlines()
    assert first == "bad.yaml:8:26: route[0].resequence.policy can't be 'standart' (did you mean 'standard'?)"
    assert second == "bad.yaml:9:23: there is no format 'jsn' (did you mean 'json'?)"
    assert count == "bad.yaml: 2 faults"


def test_json_for_scripts():
    result = called("check", "bad.yaml", "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert (told["ok"], [fault["where"] for fault in told["faults"]]) == (False, ["bad.yaml:8:26", "bad.yaml:9:23"])
    port = {"destination": "all", "format": "json", "path": "out/all", "guarantee": "exactly once", "obstacle": None}
    good = {"file": "good.yaml", "ok": True, "faults": [], "ports": [port]}
    assert json.loads(called("check", "good.yaml", "--json").stdout) == good


def test_a_file_that_is_not_there():
    result = called("check", "gone.yaml")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, "gone.yaml: there is no such file")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("a"), 2),
        (DeclarationError("a"), 2),
        (EnvironmentProblem("a"), 3),
        (InvariantBroken("a"), 4),
        (SeriatimError("a"), 1),
    ],
)
def test_an_error_is_one_line_and_a_code(error, code, monkeypatch):
    @click.command()
    def broken():
        raise error

    monkeypatch.setattr(type(main), "get_command", lambda *_: broken)
    result = called("broken")
    assert result.exit_code == code
    lines = result.stderr.splitlines()
    assert lines[-1] == "error: a"
    assert ("report it" in result.stderr) == isinstance(error, InvariantBroken) == (len(lines) > 1)


def test_help_does_not_import_spark():
    program = (
        "import sys; from seriatim.cli.main import main; main(['--help'], standalone_mode=False);"
        "sys.exit(bool({'pyspark', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert result.returncode == 0, result.stderr
    for command in main.list_commands(click.Context(main)):
        assert command in result.stdout
