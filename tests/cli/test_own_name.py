"""Commands that are shown to be pasted begin as this one was started."""

from __future__ import annotations

import os
import sys

import pytest

from seriatim.cli.options.own_name import own_name


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An environment with the command, the folder above it, and nothing of it in PATH."""
    program = tmp_path / "my env" / "bin" / "seriatim"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return program


def test_as_it_was_started(installed, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["my env/bin/seriatim", "demo"])
    assert own_name() == "'my env/bin/seriatim'"
    assert own_name(absolute=True) == f"'{installed}'"


def test_found_in_path(installed, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(installed)])
    monkeypatch.setenv("PATH", f"{installed.parent}:/usr/bin")
    assert own_name() == own_name(absolute=True) == "seriatim"


def test_as_a_module(installed, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/seriatim/__main__.py"])
    assert own_name() == f"{sys.executable} -m seriatim"
    (installed.parent / "python").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setenv("PATH", str(installed.parent))
    assert own_name() == "python -m seriatim"


def test_in_another_program(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert own_name() == "seriatim"
