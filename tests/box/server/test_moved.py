"""A box in a folder that was copied or moved, on a standby, and on a server that was promoted or recovered."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.server.embedded import trust
from seriatim.box.views import operations_done
from seriatim.box.views.operations_done import LogFilter
from seriatim.cli.main import main
from seriatim.operations import doctor, identity
from tests.box.embedding import data_of, has_gone, put_box

pytestmark = pytest.mark.dear

BY = {"actor": "ann", "reason": "ticket 4711"}
_FOLDER = ".seriatim/postgres"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in which a box is, closed, with one message."""
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    place = tmp_path / "first"
    place.mkdir()
    put_box(place)
    monkeypatch.chdir(place)
    with sq.MessageBox.open() as box:
        box.define(sq.Queue("q", policy=sq.Unordered()), sq.Subscription("all", where="TRUE", to="q"))
        box.publish(sq.Message(type="order"))
    assert has_gone(place)
    yield place
    assert has_gone(Path.cwd())


def moved(folder: Path, monkeypatch, *command: str) -> Path:
    """Where the folder is after a command that copies or moves it."""
    there = folder.parent / "second"
    subprocess.run([*command, folder, there], check=True)
    monkeypatch.chdir(there)
    return there


def who() -> tuple[object, int]:
    with sq.MessageBox.open() as box:
        return box.id, box.incarnation


def received(box):
    with box.session() as tx:
        return tx.receive("q")


def seen() -> identity.BoxIdentity:
    with sq.MessageBox.open() as box:
        found = identity.identity(box)
        assert found is not None
        return found


def called(*words: str, code: int = 0):
    result = CliRunner().invoke(main, ["box", *words])
    assert result.exit_code == code, result.output
    return result


def test_a_copied_folder_is_disabled_and_says_what_to_do(folder, monkeypatch):
    original = who()
    assert has_gone(folder)
    there = moved(folder, monkeypatch, "cp", "-a")
    trust(Path(_FOLDER))  # the copy is somebody else's
    with sq.MessageBox.open() as box:
        with pytest.raises(sq.BoxDisabled) as caught:
            box.publish(sq.Message(type="order"))
        assert f"it remembers the folder {folder / _FOLDER}, and this is {there / _FOLDER}" in caught.value.what
        with psycopg.connect(box.dsn) as connection, pytest.raises(psycopg.Error, match="is disabled"):
            connection.execute("SELECT seriatim.publish('order', '')")  # by SQL alone, too
        assert len(box.peek("q")) == 1
        (finding,) = [one for one in doctor.findings_at(None, "seriatim") if one.name == "identity"]
        assert finding.state == "wrong"
        shown = called("status").stdout
        assert f"box {original[0]}, incarnation 1" in shown
        assert "disabled: it remembers the folder" in shown
        told = json.loads(called("status", "--json").stdout)["identity"]
        assert (told["id"], told["enabled"]) == (str(original[0]), False)
        assert (told["folder"], told["folder_here"]) == (str(folder / _FOLDER), str(there / _FOLDER))
        assert "this needs confirmation: give box" in called("new-id", code=2).stderr
        would = json.loads(called("new-id", "--dry-run", "--json").stdout)
        assert would == {"dry_run": True, "id": None, "former_id": str(original[0]), "messages": 0, "dialogs": 0}
        assert called("new-id", "--dry-run").stdout.startswith("would give the box a new id, and delete 0 messages")
        assert "the reason is missing" in called("new-id", "--yes", code=2).stderr
        assert not identity.identity(box).enabled
        done = json.loads(called("new-id", "--yes", "--reason", "a copy", "--json").stdout)
        assert done["former_id"] == str(original[0]) != done["id"]
        box.publish(sq.Message(type="order"))
        assert "nothing to do" in called("enable", "--yes", "--reason", "once more").stdout
    assert has_gone(there)
    again, incarnation = who()
    assert (str(again), incarnation) == (done["id"], 1)


def test_the_original_may_be_enabled_where_it_is(folder, monkeypatch):
    original = who()
    assert has_gone(folder)
    moved(folder, monkeypatch, "cp", "-a")
    trust(Path(_FOLDER))
    assert called("enable", "--dry-run").stdout.startswith(f"would enable box {original[0]}")
    assert "its original must not be used any more" in called("enable", "--reason", "moved", code=2).stderr
    told = json.loads(called("enable", "--yes", "--reason", "moved", "--json").stdout)
    assert (told["was_disabled"], told["identity"]["enabled"], told["identity"]["incarnation"]) == (True, True, 2)
    assert who() == (original[0], 2)


@pytest.mark.telling
def test_a_moved_folder_is_the_same_box_and_its_new_path_is_remembered(folder, monkeypatch):
    original = who()
    assert has_gone(folder)
    there = moved(folder, monkeypatch, "mv")
    assert who() == original
    assert seen().folder == str(there / _FOLDER)
    assert has_gone(there)
    copy_in_place(there)  # another inode at the path that is remembered now
    assert who() == original


def copy_in_place(folder: Path) -> None:
    """The data have another inode at the same path, as after a restore from a backup."""
    data = data_of(folder)
    before = data.stat().st_ino
    aside = data.with_name("aside")
    subprocess.run(["cp", "-a", data, aside], check=True)
    assert aside.stat().st_ino != before
    subprocess.run(["rm", "-r", data], check=True)
    aside.rename(data)
    trust(folder / _FOLDER)


def test_a_folder_with_another_inode_at_its_path_is_the_same_box(folder):
    original = who()
    assert has_gone(folder)
    copy_in_place(folder)
    assert who() == original
    with sq.MessageBox.open() as box:
        box.publish(sq.Message(type="order"))


def test_a_standby_can_be_read_and_when_it_is_promoted_the_box_has_a_new_incarnation(folder):
    original = who()
    assert has_gone(folder)
    (data_of(folder) / "standby.signal").touch()
    with sq.MessageBox.open() as box:
        assert (box.id, box.incarnation) == original
        found = identity.identity(box)
        assert (found.is_standby, found.enabled, found.timeline, found.timeline_here) == (True, True, 1, None)
        assert found.home.endswith("a standby")
        assert found.unknown == ()
        assert len(box.peek("q")) == 1
        for use in (lambda: box.publish(sq.Message(type="order")), lambda: received(box)):
            with pytest.raises(sq.EnvironmentProblem, match="the server is a standby") as caught:
                use()
            assert caught.value.remedy == "connect to the primary server, or promote this one"
        with psycopg.connect(box.dsn, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote(wait => true)").fetchone() == (True,)
        # Also the connections that were there before: the box hears of it before it publishes.
        box.publish(sq.Message(type="order"))
        assert (box.id, box.incarnation) == (original[0], 2)
        found = identity.identity(box)
        assert (found.is_standby, found.timeline, found.timeline_here) == (False, 2, 2)
        with box.access.transaction() as transaction:
            (entry,) = operations_done.logged(transaction, LogFilter(limit=10))
        assert (entry.action, entry.details["timeline"]) == ("new incarnation", [1, 2])
        with box.session() as tx:
            assert len(tx.receive("q", limit=10)) == 2
            tx.delivery.done()
    assert has_gone(folder)
    assert who() == (original[0], 2)


def test_a_standby_of_a_box_that_nobody_has_opened(folder):
    with sq.MessageBox.open() as box:
        identity.forget(box)
    assert has_gone(folder)
    (data_of(folder) / "standby.signal").touch()
    with sq.MessageBox.open() as box:
        assert box.id is None
        assert identity.identity(box) is None
        assert "no id yet" in called("status").stdout
        (finding,) = [one for one in doctor.findings_at(None, "seriatim") if one.name == "identity"]
        assert (finding.state, "no id yet" in finding.found) == ("ok", True)
