"""Messages that a pipeline has set aside are put back, edited or not: each once, with an entry in the log, in the accounts."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.spark.control.commands import LOOK, RESUBMIT, Command
from tests.cli.test_pipeline_commands import running
from tests.delivered import table_of
from tests.runtime.pipelines.test_commands import answers, by_id, command, delivered, put, told

pytestmark = pytest.mark.usefixtures("spark")

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 3
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}, total: {{path: $.total, type: double}}}}
process: {{function: {module}:tax, returns: {{tax: double}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out/ordered}}
"""
STEPS = """
import pyarrow.compute as pc

def tax(messages):
    if (pc.min(messages["total"]).as_py() or 0) < 0:
        raise ValueError("a negative total")
    return messages.append_column("tax", pc.divide(messages["total"], 4.0))
"""
REPEAT = "once the pipeline runs by its present file, put the message back again"
WHY = ("--actor", "ada", "--reason", "a test")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path, module=f"steps_{tmp_path.name}"))
    (tmp_path / f"steps_{tmp_path.name}.py").write_text(STEPS)
    return tmp_path


def invoked(*words, **more):
    return CliRunner().invoke(main, ["set-aside", *map(str, words)], **more)


def listed(*words):
    return [json.loads(line) for line in invoked(*words, "--json").output.splitlines()]


@pytest.mark.usefixtures("spark")
def test_messages_go_back_once_edited_or_not(folder):
    file = folder / "pipeline.yaml"
    put(folder, "a", [("late", 1), ("late", 3)])
    with (folder / "in" / "a.json").open("a") as lines:
        lines.write('nonsense\n{"customer": "new", "version": "x"}\n{"customer": "tax", "version": 1, "total": -4}\n')
    run(load(file), once=True)
    told(folder, command("skip_hole", "late", through=2))
    put(folder, "b", [("late", 2), ("late", 1)])
    run(load(file), once=True)
    aside = {(one["message_id"], one["disposition"]) for one in listed(file)}
    assert aside == {
        ("crm/b.json:1", "late"), ("crm/b.json:2", "duplicate"),
        *((f"crm/a.json:{row}", "invalid") for row in (3, 4, 5)),
    }  # fmt: skip
    assert invoked(file, "--disposition", "late").output == invoked("list", file, "--disposition", "late").output

    as_they_are = invoked("resubmit", file, "--all", "--yes", "--dry-run", "--json")
    would = {one["message_id"]: (one["result"], one["why"]) for one in json.loads(as_they_are.output)["messages"]}
    assert as_they_are.exit_code == 1
    assert would["crm/b.json:1"] == ("would", None)
    assert would["crm/a.json:5"][1].endswith("ValueError: a negative total")
    assert set(would) == {"crm/b.json:1", *(f"crm/a.json:{row}" for row in (3, 4, 5))}  # the duplicate isn't among them

    edits = folder / "edits.jsonl"
    changes = {
        "crm/a.json:3": {"body": '{"customer": "new", "version": 1}'},
        "crm/a.json:4": {"version": 2},
        "crm/a.json:5": {"body": '{"customer": "tax", "version": 1, "total": 4}'},
    }
    lines = [one | changes.get(one["message_id"], {}) for one in listed(file)]
    edits.write_text("".join(json.dumps(one) + "\n" for one in lines if one["disposition"] != "duplicate"))
    # Down: the next run takes them, also if they were written twice.
    for _ in range(2):
        done = invoked("resubmit", file, "--edits", edits, *WHY, "--json")
        assert (done.exit_code, {one["result"] for one in json.loads(done.output)["messages"]}) == (0, {"queued"})
    summary = run(load(file), once=True)
    (account,) = summary.accounts
    assert (account.arrived, account.released, account.set_aside) == (4, 4, 0)
    assert delivered(folder) == {"late": [(1, 1), (3, 2), (2, 3)], "new": [(1, 1), (2, 2)], "tax": [(1, 1)]}
    again = invoked("resubmit", file, "--edits", edits, *WHY)
    assert (again.exit_code, again.output.splitlines()[-1]) == (0, "4 put back before")
    assert "ordered, crm/b.json:1: was put back before, in batch " in again.output
    marked = {one["message_id"]: one.get("put_back") for one in listed(file)}
    assert {one for one, batch in marked.items() if batch is None} == {"crm/b.json:2"}
    assert f"in batch {marked['crm/b.json:1']}" in invoked(file).output
    edits.write_text(invoked(file, "--disposition", "late", "--json").output)  # what is marked can be given back
    assert "1 put back before" in invoked("resubmit", file, "--edits", edits, *WHY).output
    shown = CliRunner().invoke(main, ["pipeline", "show", str(file), "--tickets", "--json"])
    assert json.loads(shown.output)["tickets"] == [{"location": "crm", "epoch": 0, "number": 6}]
    log = CliRunner().invoke(main, ["log", "--pipeline", str(file), "--json"])
    logged = [one for one in json.loads(log.output) if one["action"] == "resubmit"]
    assert {(one["result"], one["actor"], one["reason"]) for one in logged} == {("done", "ada", "a test")}
    assert sorted(one["details"]["arguments"]["message_id"] for one in logged) == [
        *(f"crm/a.json:{row}" for row in (3, 4, 5)), "crm/b.json:1",
    ]  # fmt: skip


def of_totals(folder, kind):
    """The pipeline without code, with totals of that type."""
    text = "".join(line for line in FILE.splitlines(keepends=True) if not line.startswith("process:"))
    text = text.replace("type: double", f"type: '{kind}'")
    (folder / "pipeline.yaml").write_text(text.format(folder=folder))
    return folder / "pipeline.yaml"


def answered_by_run(file):
    """What the command says of its messages once the run has answered: a slow machine takes longer than one call waits."""
    for _ in range(12):
        done = invoked("resubmit", file, "--all", "--yes", *WHY)
        if "queued" not in done.output:
            break
    return done


def totals(folder):
    rows = table_of(folder / "out" / "ordered", "json").to_pylist()
    return {(row["group"], row["version"]): row["total"] for row in rows}


def test_a_run_refuses_what_goes_back_by_another_declaration_and_goes_on(folder):
    lines = [{"customer": "c", "version": version, "total": total} for version, total in ((1, 5), (2, "12.50"), (4, 7))]
    (folder / "in" / "a.json").write_text("".join(json.dumps(one) + "\n" for one in lines))
    with running(of_totals(folder, "long")) as ended:
        file = of_totals(folder, "decimal(12,2)")
        for _ in range(2):  # what was refused can be put back again
            done = answered_by_run(file)
            why = "property total is a decimal(12,2), and in the run a long: " + REPEAT
            assert (done.exit_code, done.output.splitlines()) == (
                1, [f"ordered, crm/a.json:2: refused, {why}", "1 refused"],
            )  # fmt: skip
        wrong = {"row": {"customer": "c", "version": 2, "total": "12.50"}, "sequence": 2}
        told(
            folder,
            Command(RESUBMIT, "ordered", "c", "ada", "a test", wrong, id="row"),
            command("skip_message", "c", "message", message=5),
            command("suspend", "d", "after"),
        )
        told(folder, Command(LOOK, None, None, "ada", "a test", {"group": "\udcff"}, id="look"))
        assert answered_by_run(file).exit_code == 1  # the run has obeyed those before
    assert len(ended) == 1
    answered = by_id(folder)
    assert [answered[one].result for one in ("row", "message", "after")] == ["refused", "refused", "done"]
    assert "refused" in {one.result for one in answers(folder) if one.id == "look"}
    assert answered["row"].why == "total: '12.50' is no long"
    # Down: the run that takes it may have another file, too.
    for kind, became in (("long", "refused"), ("decimal(12,2)", "done")):
        assert "1 queued" in invoked("resubmit", of_totals(folder, "decimal(12,2)"), "--all", "--yes", *WHY).output
        run(load(of_totals(folder, kind)), once=True)
        (answer,) = [one for one in by_id(folder).values() if one.verb == RESUBMIT and one.id != "row"]
        assert answer.result == became
    assert totals(folder) == {("c", 1): 5, ("c", 2): 12.5}
    assert "1 put back before" in invoked("resubmit", file, "--all", "--yes", *WHY).output


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("resubmit", "nowhere", "x"), "there is no pipeline 'nowhere'"),
        (("resubmit", "pipeline.yaml", "x"), "pipeline 'orders' has not run yet"),
        (("resubmit", "pipeline.yaml"), "name messages, or --all, or --edits"),
        (("resubmit", "pipeline.yaml", "x", "--all"), "name messages, or --all, or --edits"),
        (("resubmit", "pipeline.yaml", "--edits", "-", "--group", "c"), "--edits has the messages"),
    ],
)
def test_what_names_nothing_is_refused(folder, words, what):
    done = invoked(*words, *WHY, input="")
    assert (done.exit_code, what in done.stderr) == (2, True), done.output


LINE = {
    "destination": "ordered", "disposition": "late", "reason": "its number was skipped before", "message_id": "crm/b.json:1",
    "type": None, "location": "crm", "ticket": {"location": "crm", "epoch": 0, "number": 7}, "group": "c", "sequence": 2,
    "customer": "c", "version": 2, "total": None, "tax": None, "body": "{}", "body_base64": None,
}  # fmt: skip


@pytest.fixture
def aside(folder):
    """A checkpoint as a run leaves it, as far as this command looks at it."""
    place = folder / "checkpoint"
    (place / "set-aside" / "batch=4").mkdir(parents=True)
    (place / "set-aside" / "batch=4" / "part-0.json").write_text(json.dumps(LINE) + "\n")
    (place / "pipeline.json").write_text(json.dumps({"pipeline": "orders", "id": "1", "buckets": 3, "layout": 3}))
    return folder


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("nonsense", "-:1: the line is not JSON"),
        ("[]", "-:1: the line is no object"),
        (json.dumps(LINE | {"message_id": "crm/z"}), "-:1: message 'crm/z' is not set aside here"),
        (json.dumps(LINE | {"message_id": []}), "-:1: message [] is not set aside here"),
        (json.dumps(LINE | {"group": "d"}), "-:1: group can't be edited"),
        (json.dumps(LINE | {"location": "d"}), "-:1: location can't be edited"),
        (json.dumps(LINE | {"vresion": 3}), "-:1: there is no field 'vresion'"),
        (json.dumps(LINE | {"body": 3}), "-:1: body is 3, and no text"),
        (json.dumps(LINE | {"body": None, "body_base64": "?"}), "-:1: body_base64 is not Base64"),
        (json.dumps(LINE | {"body_base64": "eA=="}), "-:1: the message has two bodies"),
        (f"{json.dumps(LINE)}\n{json.dumps(LINE)}", "-:2: the message is in the file twice"),
    ],
)
def test_a_line_that_can_t_be_applied_is_told_and_nothing_is_done(aside, line, what):
    done = invoked("resubmit", "pipeline.yaml", "--edits", "-", *WHY, input=line)
    assert (done.exit_code, what in done.stderr) == (2, True), done.output
    assert not (aside / "checkpoint" / "control").exists()


def test_what_a_call_that_was_killed_has_written_isn_t_written_again(aside):
    """As if the first call had been killed after one of three, and the second one before it had its answers."""
    written = aside / "checkpoint" / "set-aside" / "batch=4" / "part-0.json"
    lines = [LINE | {"message_id": f"crm/b.json:{row}"} for row in (1, 2, 3)]
    written.write_text("".join(json.dumps(one) + "\n" for one in lines))
    control = aside / "checkpoint" / "control"
    for words, entries in ((("crm/b.json:2",), [1]), (("--all", "--yes"), [1, 2]), (("--all", "--yes"), [1, 2])):
        done = invoked("resubmit", "pipeline.yaml", *words, *WHY)
        assert done.exit_code == 0, done.output
        assert [len(file.read_text().splitlines()) - 1 for file in sorted(control.iterdir())] == entries
    commands = [json.loads(line) for file in sorted(control.iterdir()) for line in file.read_text().splitlines()[1:]]
    assert [one["arguments"]["message_id"] for one in commands] == [f"crm/b.json:{row}" for row in (2, 1, 3)]
    assert {(one["queue"], one["key"], one["actor"], one["arguments"]["sequence"]) for one in commands} == {
        ("ordered", "c", "ada", 2)
    }
    assert len({one["id"] for one in commands}) == 3


def test_what_is_damaged_or_not_there_is_told(aside):
    unknown = invoked("resubmit", "pipeline.yaml", "crm/z", *WHY)
    assert (unknown.exit_code, "message 'crm/z' is not set aside as you say" in unknown.stderr) == (2, True)
    written = aside / "checkpoint" / "set-aside" / "batch=4" / "part-0.json"
    written.write_text(json.dumps(LINE)[:-9])
    damaged = invoked("resubmit", "pipeline.yaml", "--all", "--yes", *WHY)
    assert (damaged.exit_code, "part-0.json:1" in damaged.stderr) == (3, True), damaged.output
