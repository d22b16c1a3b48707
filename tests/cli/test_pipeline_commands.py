"""`seriatim group --pipeline`, `log`, and `pipeline stop|drain`: an operator's hand on a pipeline that runs, and on one that doesn't."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.stop_signal import Stop
from tests.console import of_pipelines
from tests.runtime.pipelines.test_commands import FILE, delivered, put

pytestmark = pytest.mark.usefixtures("spark")

WHY = ("--actor", "ada", "--reason", "a test")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path, options=""))
    return tmp_path


def invoked(*words):
    return CliRunner().invoke(main, list(map(str, words)))


@contextmanager
def running(file):
    """A run of the pipeline in another thread, from its first batch on."""
    stop, begun, ended = Stop(), threading.Event(), []

    def work():
        try:
            ended.append(run(load(file), stop=stop, progress=lambda _: begun.set()))
        finally:
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert begun.wait(120)
        yield ended
    finally:
        stop.request()
        thread.join(120)


def list_what_stands_still(file):
    """From the report of the last batch, and by asking the run."""
    waiting = invoked("groups", "--pipeline", file, "--json")
    assert [(one["group"], one["state"], one["missing_first"]) for one in json.loads(waiting.output)] == [
        ("four", "suspended", None),
        ("one", "suspended", None),
        ("three", "suspended", None),
        ("two", "waiting", 3),
    ]
    every = invoked("groups", "--pipeline", file, "--all", "--key", "t*")
    assert [line.split()[:3] for line in every.output.splitlines()[1:]] == [
        ["ordered", "three", "suspended"],
        ["ordered", "two", "waiting"],
    ]
    shown = invoked("group", "show", "one", "--pipeline", file)
    *_, allowed, helps = shown.output.splitlines()
    assert allowed == "allowed: suspend, resume, reset, abort, close, restart"
    assert helps == f"helps: seriatim group resume one --queue ordered --pipeline {file}"


def see_what_is_there(file):
    """From the state itself, and from the operator log."""
    assert json.loads(invoked("group", "show", "two", "--pipeline", file, "--json").output)["missing_first"] == 3
    assert "does not have a group 'five'" in invoked("group", "show", "five", "--pipeline", file).stderr
    told = invoked("pipeline", "show", file, "--tickets").output
    assert "next tickets:" in told
    counts = json.loads(invoked("pipeline", "show", file, "--json").output)
    assert "tickets" not in counts
    found = [counts[name] for name in ("running", "held", "held_groups", "holes", "queued")]
    assert found == [False, 1, 1, 1, 0]
    (ordered,) = counts["destinations"]
    assert [ordered[name] for name in ("queue", "released", "held", "groups")] == ["ordered", 4, 1, 4]
    events = json.loads(invoked("events", "--pipeline", file, "--json").output)
    assert sorted((one["group"], one["kind"], one["first"], one["actor"]) for one in events) == [
        ("four", "suspended", None, "ada"),
        ("one", "hole_skipped", 2, "ada"),
        ("one", "suspended", None, "ada"),
        ("three", "suspended", None, "ada"),
        ("two", "hole_skipped", 1, "ada"),
    ]
    counts = json.loads(invoked("events", "--pipeline", file, "--by", "kind", "--json").output)
    assert [(one["kind"], one["events"], one["groups"]) for one in counts] == [
        ("suspended", 3, 3),
        ("hole_skipped", 2, 2),
    ]


def test_an_operator_mends_groups_of_a_running_pipeline_and_of_one_that_is_down(folder, box, monkeypatch):
    file = folder / "pipeline.yaml"
    client = of_pipelines.console(box, file, monkeypatch)
    assert "pipeline &#39;orders&#39; has not run yet" in client.get("/pipelines").text
    never = invoked("group", "suspend", "c", "--pipeline", file, *WHY)
    assert (never.exit_code, "pipeline 'orders' has not run yet" in never.stderr) == (2, True)
    put(folder, "a", [("one", 1), ("one", 3), ("two", 2), ("two", 4), ("three", 1)])
    with running(file) as ended:
        # The query is idle: a command wakes it.
        of_pipelines.suspend_in_the_console(client)
        looked = invoked("group", "skip-hole", "--all", "--pipeline", file, "--key", "t*", "--dry-run")
        assert looked.exit_code == 0, looked.output
        assert [line.split()[:3] for line in looked.output.splitlines()[1:]] == [
            ["ordered", "two", "waiting"],
            ["skip-hole", "would", "be"],
        ]
        would = invoked("group", "skip-hole", "one", "--pipeline", file, "--dry-run", "--json")
        told = json.loads(would.output)
        assert [told[name] for name in ("obeyed", "dry_run", "after", "released")] == [False, True, "ready", 1]
        many = invoked("group", "skip-hole", "--all", "--pipeline", file, "--yes", *WHY)
        assert many.output.splitlines() == [
            "ordered, group one: waiting → ready, 1 released, 2 skipped",
            "ordered, group two: waiting → waiting, 1 released, 1 skipped",
            "2 of 2 groups: skip-hole",
        ]
        refused = invoked("group", "resume", "one", "--pipeline", file, *WHY)
        assert (refused.exit_code, refused.stderr) == (
            2, "error: group 'one': cannot resume a group that is ready (allowed: suspend, reset, abort, close, requeue, restart)\n",
        )  # fmt: skip
        unknown = invoked("group", "abort", "four", "--pipeline", file, *WHY)
        assert (unknown.exit_code, "does not have a group 'four'" in unknown.stderr) == (2, True)
        several = invoked("group", "suspend", "one", "four", "--pipeline", file, *WHY)
        assert (several.exit_code, several.output.splitlines()) == (
            0,
            [
                "ordered, group one: ready → suspended",
                "ordered, group four: ready → suspended",
                "2 of 2 groups: suspend",
            ],
        )
        list_what_stands_still(file)
        of_pipelines.see_a_running_pipeline(client, invoked, file)
        stopped = invoked("pipeline", "stop", file)
        assert (stopped.exit_code, stopped.output) == (0, "orders: stopped; the next run goes on here\n")
        assert [one.ending for one in ended] == ["stopped"]
    assert delivered(folder) == {"one": [(1, 1), (3, 2)], "two": [(2, 1)], "three": [(1, 1)]}
    assert invoked("pipeline", "stop", file).output == "orders: was not running\n"

    see_what_is_there(file)
    of_pipelines.see_a_pipeline_that_is_down(client)
    down = invoked("group", "resume", "three", "--pipeline", file, "--dry-run")
    assert (down.exit_code, "(start it, or use `group show`)" in down.stderr) == (2, True)
    queued = invoked("group", "resume", "three", "--pipeline", file, *WHY, "--json")
    told = json.loads(queued.output)
    assert (queued.exit_code, told["queued"], told["obeyed"], told["after"]) == (0, True, False, None)
    logged = json.loads(invoked("log", "--pipeline", file, "--json", "--group", "three").output)
    assert [(one["action"], one["result"], one["actor"]) for one in logged] == [
        ("resume", "queued", "ada"),
        ("skip_hole", "refused", "ada"),
        ("suspend", "done", "ada"),
    ]

    put(folder, "b", [("three", 2)])
    drained = invoked("pipeline", "drain", file)
    assert drained.exit_code == 3, drained.output
    lines = drained.output.splitlines()
    assert lines[0].startswith("orders: drained, 1 batch in ")
    assert lines[1] == "1 group still holds 1 message:"
    assert re.fullmatch(r"ordered +two +waiting .* 3 +1 +waits behind a missing number", lines[3])
    assert delivered(folder)["three"] == [(1, 1), (2, 2)]
    put(folder, "c", [("two", 3)])
    told = json.loads(invoked("pipeline", "drain", file, "--json").output)
    assert (told["summary"]["ending"], told["groups"]) == ("drained", [])
    assert invoked("pipeline", "drain", file).exit_code == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("group", "suspend", "c", "--pipeline", "nowhere"), "there is no pipeline 'nowhere', and no such file"),
        (("group", "suspend", "c", "--pipeline", "nowhere", "--dsn", "x"), "--pipeline and --dsn can't be combined"),
        (("group", "reset", "c", "--next", "1", "--dry-run"), "--dry-run needs --pipeline"),
        (("log", "--pipeline", "nowhere"), "there is no pipeline 'nowhere', and no such file"),
        (("pipeline", "drain", "nowhere"), "there is no pipeline 'nowhere', and no such file"),
    ],
)
def test_what_names_no_pipeline_is_refused(folder, monkeypatch, words, what):
    monkeypatch.chdir(folder)
    done = invoked(*words, *(WHY if words[0] == "group" else ()))
    assert (done.exit_code, what in done.stderr) == (2, True), done.output
