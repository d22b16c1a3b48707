"""The file port: files are whole, in the order of their names, and the same when they are written again."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seriatim as sq
from seriatim.endpoints import FilePort, files
from seriatim.endpoints.files import _name
from tests.box.shop import define, publish, rows
from tests.endpoints.handed import hand, message
from tests.runtime.workers.test_worker import work


def written(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_file_for_each_message_in_order(box, tmp_path, mode):
    define(box)
    with box.session() as tx:
        tx.publish([
            sq.Message(type="order", body=f"{who} {n}".encode(), context={"customer": who, "version": n})
            for who in ("../a", "b/c") for n in (2, 1, 3)
        ])  # fmt: skip
    work(box, FilePort(tmp_path, suffix=".txt"), mode=mode)
    assert {path.parent.parent for path in tmp_path.rglob("*.txt")} == {tmp_path}
    assert [body for path, body in written(tmp_path).items() if path.startswith("b%2Fc")] == [
        b"b/c 1",
        b"b/c 2",
        b"b/c 3",
    ]
    assert list(written(tmp_path))[:2] == [f"%2E.%2Fa/000000-{n:019d}.txt" for n in (1, 2)]
    assert len(written(tmp_path)) == 6


def test_again_it_is_the_same_file(box, tmp_path):
    define(box, retry=sq.Retry(delay=0.05))
    publish(box, 1, 2)
    port, failed = FilePort(tmp_path), []

    def handle(message, tx):
        port(message, tx)
        if not failed:
            failed.append(1)
            raise sq.Transient

    work(box, handle)
    assert len(written(tmp_path)) == 2


def test_what_has_no_group_has_the_name_of_its_id(box, tmp_path):
    box.define(sq.Queue("pick", policy=sq.Unordered()))
    (message_id,) = box.publish(sq.Message(type="order", body=b"x", context={"to": "pick"}))
    work(box, FilePort(tmp_path), queue="pick")
    assert written(tmp_path) == {message_id: b"x"}


def test_processes_with_the_same_number_write_to_one_folder(tmp_path, monkeypatch):
    """As containers do that share a volume: the other one writes while this one waits for the disk."""
    real, others = os.fsync, [2, 3]

    def fsync(number):
        if others:
            assert hand(FilePort(tmp_path), message(others.pop(), b"of another")) is None
        real(number)

    monkeypatch.setattr(files.os, "fsync", fsync)
    assert hand(FilePort(tmp_path), message(1, b"of this one")) is None
    assert sorted(written(tmp_path).values()) == [b"of another", b"of another", b"of this one"]
    assert [path.name for path in sorted(tmp_path.rglob("*-*"))] == [f"000000-{n:019d}" for n in (1, 2, 3)]


def test_a_folder_that_is_gone_is_not_made_anew(tmp_path):
    """It may be on a volume that is away, and what lies beneath is hidden when that comes back."""
    folder = tmp_path / "volume" / "out"
    folder.mkdir(parents=True)
    port = FilePort(folder)
    folder.rmdir()
    for group in (None, "c1"):
        raised = hand(port, message(None if group is None else 1), group=group)
        assert isinstance(raised, sq.Transient)
        assert "No such file or directory" in str(raised)
    assert written(tmp_path) == {}
    assert not folder.exists()


def test_what_the_system_refuses_is_tried_again(box, tmp_path):
    define(box, retry=sq.Retry(delay=0.05))
    publish(box, 1)
    (tmp_path / "c1").write_text("no folder")
    work(box, FilePort(tmp_path), done=lambda: len(rows(box, "SELECT FROM {schema}.faults")) > 1)
    for fault in rows(box, "SELECT * FROM {schema}.faults"):
        assert fault.kind == "transient"
        assert "the file can't be written: File exists" in fault.error


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=400))
def test_a_name_is_a_name_of_a_file(text):
    name = _name(text)
    assert len(name.encode()) <= 255
    assert "/" not in name
    assert not name.startswith(".")


@given(st.lists(st.sampled_from(["a", "A", ".", "~", "%", "/", "a" * 200, "a" * 201, "é"]), min_size=1, max_size=3))
def test_no_two_have_one_name(parts):
    text = "".join(parts)
    others = {text + "a", text.upper(), "." + text, text[:-1] + "~", _name(text)} - {text}
    assert _name(text) not in {_name(one) for one in others if one}


@pytest.mark.parametrize("suffix", ["/x", "..", ".a b", ".ä", 7])
def test_what_cannot_be_is_refused(tmp_path, suffix):
    with pytest.raises(sq.UsageError, match="suffix can't be"):
        FilePort(tmp_path, suffix=suffix)
    with pytest.raises(sq.UsageError, match="folder does not exist"):
        FilePort(tmp_path / "nowhere")
