"""The files of the tests' PostgreSQL are in memory, and don't stay there."""

from __future__ import annotations

import os

import pytest

from seriatim.testing import databases


@pytest.fixture
def memory(monkeypatch, tmp_path):
    monkeypatch.setattr(databases, "_MEMORY", tmp_path)
    monkeypatch.setattr(databases, "_MUCH", 0)
    return tmp_path


def test_what_a_killed_run_has_left_goes_and_what_another_one_uses_stays(memory, tmp_path_factory):
    disk = tmp_path_factory.mktemp("disk")
    left = memory / f"seriatim-tests-{os.getuid()}-left"
    left.mkdir()
    with databases.in_memory(disk) as one:
        assert one.parent == memory
        assert not left.exists()
        with databases.in_memory(disk) as other:
            assert other != one
            assert one.is_dir()
        assert not other.exists()
    assert not one.exists()


def test_without_enough_of_it_they_are_on_disk(memory, monkeypatch, tmp_path_factory):
    disk = tmp_path_factory.mktemp("disk")
    monkeypatch.setattr(databases, "_MUCH", 2**60)
    with databases.in_memory(disk) as folder:
        assert folder == disk
    monkeypatch.setattr(databases, "_MEMORY", memory / "nowhere")
    with databases.in_memory(disk) as folder:
        assert folder == disk
