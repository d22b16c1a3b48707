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
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.checkpoint import Checkpoint

pytestmark = pytest.mark.telling

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
    assert "box.yaml:1:1: unknown key 'queues' (it belongs in a box file, for seriatim box apply FILE)" in result.stderr


def test_says_what_a_good_file_does():
    result = called("check", "good.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "good.yaml: ok"
    assert "all: standard, json files in out/all, exactly once" in result.stdout
    assert result.stderr == ""


def test_a_duration_without_a_unit_counts_as_seconds_with_a_warning():
    text = GOOD.replace("name: small", "name: small\ntrigger: 0\nclock: event\ntime: at\nwatermark: 90")
    text = text.replace("key: $.key,", "key: $.key, at: {path: $.at, type: timestamp},")
    Path("bare.yaml").write_text(text.replace("policy: standard", "policy: standard, hole_timeout: 0.5"))
    told = [
        "bare.yaml:5:12: watermark: 90 has no unit and counts as seconds: write 90s",
        "bare.yaml:12:50: route[0].resequence.hole_timeout: 0.5 has no unit and counts as seconds: write 0.5s",
    ]
    result = called("check", "bare.yaml")
    assert (result.exit_code, result.stderr.splitlines()) == (0, [f"warning: {one}" for one in told])
    assert json.loads(called("check", "bare.yaml", "--json").stdout)["warnings"] == told


def test_says_what_is_dropped():
    Path("drop.yaml").write_text(GOOD.replace("deliver: {format: json, path: out/all}", "deliver: drop"))
    result = called("check", "drop.yaml")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "  deliver  all: standard, dropped")
    (port,) = json.loads(called("check", "drop.yaml", "--json").stdout)["ports"]
    assert (port["format"], port["path"], port["guarantee"]) == ("drop", None, "exactly once")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("path: inbox", "path: ${IN}", """4:35: this is not YAML: expected ',' or '}', but got '{' (inside { } put it in quotes: {path: "${NAME}"})"""),
        ("- to: all", "- to: all\n    where: key == 'a'", "8:12: route[0].where, 1:5 of the filter: '==' is not part of a filter (write =)"),
        ("- to: all", "- to: all\n    where: key <> None", "8:12: route[0].where, 1:8 of the filter: None is not part of a filter (write NULL, as in x IS NULL)"),
        ("- to: all", "- to: all\n    where: TRUE && TRUE", "8:12: route[0].where, 1:6 of the filter: '&&' is not part of a filter (write AND)"),
        ("path: out/all", 'path: "${NONE}/all"', "9:35: the environment variable NONE is not set (export NONE=…)"),
        ("path: inbox", 'path: "${NONE}/${NONE}"', "4:34: the environment variable NONE is not set (export NONE=…)"),
        ("name: small", "name: small\ntrigger: '7'", "2:10: trigger: '7' has no unit (write 7s for seconds, or 7m, 7h, 7d)"),
        ("name: small", "name: small\ntrigger: soon", """2:10: trigger: 'soon' is not a duration (write "100s", "5m", "1.5h", "250ms" or "7d")"""),
        ("policy: standard", "policy: standard, hole_timeout: '7'", "8:50: Standard: hole_timeout: '7' has no unit (write 7s for seconds, or 7m, 7h, 7d)"),
    ],
)  # fmt: skip
def test_what_comes_from_another_language_says_what_to_write(old, new, told):
    Path("slip.yaml").write_text(GOOD.replace(old, new))
    result = called("check", "slip.yaml")
    assert result.stderr.splitlines() == [f"slip.yaml:{told}", "slip.yaml: 1 fault"]


def test_a_variable_that_is_not_set_is_one_fault_wherever_it_stands():
    slips = GOOD.replace("inbox", '"${NONE}/in"').replace("out/all", '"${NONE}/out"').replace("small", '"${NONE}"')
    Path("slip.yaml").write_text(slips)
    result = called("check", "slip.yaml")
    assert result.stderr.splitlines() == [
        "slip.yaml:1:7: the environment variable NONE is not set (export NONE=…)",
        "slip.yaml: 1 fault",
    ]


def test_a_short_value_of_a_variable_is_concealed_where_it_stands_and_not_in_other_words(monkeypatch):
    monkeypatch.setenv("OUT", "out")
    Path("slip.yaml").write_text(
        GOOD.replace("out/all", '"${OUT}/all"').replace("- to: all", "- to: all\n    where: NULL =")
    )
    assert called("check", "slip.yaml").stderr.startswith("slip.yaml:8:12: route[0].where")


def test_warns_of_a_port_that_cannot_be_written():
    # Not even the superuser can make anything there.
    text = GOOD.replace("out/all", "/proc/out").replace("name: small", "name: small\nset_aside: /proc/aside")
    Path("ports.yaml").write_text(text)
    result = called("check", "ports.yaml")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "ports.yaml: ok")
    waits = "until that is mended, its messages wait in the checkpoint"
    nothing = "the folder '/proc' can't be written to: no such file or directory"
    assert result.stderr.splitlines() == [
        f"warning: destination all: {nothing}; {waits}",
        f"warning: set_aside: {nothing}; {waits}",
    ]
    found = json.loads(called("check", "ports.yaml", "--json").stdout)
    assert [one["obstacle"] for one in found["ports"]] == [nothing]
    assert [f"warning: {one}" for one in found["warnings"]] == result.stderr.splitlines()
    assert not list(Path("inbox").iterdir())


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
    good = {"file": "good.yaml", "ok": True, "faults": [], "ports": [port], "changes": [], "warnings": []}
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


def test_what_a_start_would_change_is_listed_and_what_it_would_refuse_is_a_fault(tmp_path):
    pipeline = load(tmp_path / "good.yaml")
    pipeline.checkpoint.mkdir(parents=True)
    checkpoint = Checkpoint(pipeline.checkpoint)
    checkpoint.identify(pipeline, {})
    checkpoint.remember(pipeline)
    assert "changes" not in called("check", "good.yaml").stdout
    (tmp_path / "good.yaml").write_text(GOOD.replace("sequence: number", "sequence: number, capacity: 5"))
    result = called("check", "good.yaml")
    assert result.exit_code == 0
    assert "  changes  destination 'all': capacity none → 5: from the next batch on\n" in result.stdout
    (told,) = json.loads(called("check", "good.yaml", "--json").stdout)["changes"]
    assert (told["what"], told["before"], told["after"], told["reason"]) == ("capacity", "none", "5", "")
    (tmp_path / "good.yaml").write_text(GOOD.replace("sequence: number", "sequence: number, start: 5"))
    result = called("check", "good.yaml")
    assert result.exit_code == 2
    assert "a start would be refused: its start is 1, yours is 5" in result.stderr
    (fault,) = json.loads(called("check", "good.yaml", "--json").stdout)["faults"]
    assert fault["code"] == "checkpoint"
