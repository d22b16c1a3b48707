"""``seriatim doctor``: what it finds on a machine where things are missing. The whole of it runs with Spark elsewhere."""

from __future__ import annotations

import json
import os

from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations.doctor import State, advice, box_checks, examine, work_checks


def test_says_what_to_do_where_there_is_no_java(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    result = CliRunner().invoke(main, ["doctor", "--json", "--pipelines"])
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    findings = {finding["name"]: finding for finding in told["findings"]}
    assert told["ok"] is False
    assert findings["java"]["state"] == "wrong"
    assert "nowhere" in findings["java"]["found"]
    assert "install" in findings["java"]["remedy"]
    assert (findings["spark"]["state"], findings["spark"]["found"]) == ("wrong", "not tried")
    assert findings["python"]["state"] == findings["pandas"]["state"] == "ok"


def test_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert {finding.name for finding in examine()} >= {"python", "java", "memory", "folder", "disk"}
    assert list(tmp_path.iterdir()) == []


def test_a_folder_below_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("")
    found = {finding.name: finding for finding in examine(tmp_path / "file" / ".seriatim")}
    assert found["folder"].state is State.WRONG
    assert found["folder"].remedy


def test_the_workers_python_is_asked(spark):
    from seriatim.operations.doctor.machine_checks import _workers

    finding = _workers(spark)
    assert finding.state is State.OK, finding


def test_looks_at_the_box_that_is_named(box, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with box.session() as tx:
        tx.connection.execute("DROP SCHEMA IF EXISTS seriatim CASCADE")

    def found(*options):
        told = json.loads(CliRunner().invoke(main, ["doctor", "--json", *options]).stdout)
        return {finding["name"]: finding for finding in told["findings"]}

    monkeypatch.setenv("SERIATIM_DSN", box.dsn)
    missing = found()["box"]
    assert (missing["state"], missing["remedy"]) == ("wrong", "seriatim box migrate")
    with box.session() as tx:  # looking made none
        assert tx.connection.execute("SELECT to_regnamespace('seriatim')").fetchone() == (None,)
    there = found("--schema", box.schema)
    assert "PostgreSQL" in there["box"]["found"]
    assert {name: there[name]["state"] for name in ("box", "laws", "faults", "leases", "at work", "transactions")} == {
        "box": "ok", "laws": "ok", "faults": "ok", "leases": "ok", "at work": "ok", "transactions": "ok",
    }  # fmt: skip
    assert "spark" not in there
    assert found("--schema", box.schema, "--audit")["laws"] == there["laws"]
    monkeypatch.delenv("SERIATIM_DSN")
    assert found()["box"]["state"] == "warning"
    assert found()["box"]["found"].startswith("there is no message box here")
    assert found("--dsn", box.dsn, "--schema", box.schema)["box"] == there["box"]
    assert found("--dsn", "postgresql://nobody@127.0.0.1:1/none")["box"]["state"] == "wrong"
    assert list(tmp_path.iterdir()) == []


def test_the_last_line_fits_what_was_found(box, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    where = ["--dsn", box.dsn, "--schema", box.schema]

    def last(*options):
        told = CliRunner().invoke(main, ["doctor", *options])
        return told.exit_code, told.stdout.splitlines()[-1]

    assert last(*where) == (0, "Nothing needs a hand.")
    box.define(sq.Queue("off", policy=sq.Unordered(), enabled=False))
    assert last(*where) == (0, "Nothing needs a hand now. Worth a look: queues off.")
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    none = "This machine is ready, but there is no message box here. Begin a project: seriatim init DIR"
    assert last() == (2, none)
    (tmp_path / ".seriatim" / "pipelines").mkdir(parents=True)
    assert last() == (0, "Nothing needs a hand.")


def test_a_finding_is_explained_also_where_the_documents_are_not(box):
    with box.session() as tx:  # a fault to be found
        tx.publish(sq.Message(type="nobody's"))
    told = CliRunner().invoke(main, ["doctor", "--dsn", box.dsn, "--schema", box.schema])
    assert "  more: seriatim doctor --explain unrouted\n" in told.stdout
    told = CliRunner().invoke(main, ["doctor", "--explain", "unrouted"])
    assert told.exit_code == 0
    assert (
        "what you see:\n  Published messages are in no queue.\nwhy:\n  no subscription matched the message"
        in told.stdout
    )
    assert "then `seriatim unrouted --resubmit`" in told.stdout
    for name in (*work_checks.CHECKS, *box_checks.CHECKS):
        assert advice(name).remedy
    told = CliRunner().invoke(main, ["doctor", "--explain", "unrooted"])
    assert (told.exit_code, "did you mean 'unrouted'?" in told.stderr) == (2, True)


def test_the_laws_of_a_box_that_cannot_be_read_in_time(box, monkeypatch):
    monkeypatch.setattr(box_checks, "AUDIT_S", 0.05)
    with box.session() as tx:
        tx.connection.execute(f"LOCK TABLE {box.schema}.known_groups")
        found = box_checks.CHECKS["laws"](box)
    assert (found.state, found.found.partition(":")[0]) == (State.OK, "not checked")
    assert "seriatim doctor --audit" in found.remedy
    assert box_checks.audit(box).found == "all messages and all bodies are accounted for"
