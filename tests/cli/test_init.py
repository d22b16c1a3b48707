"""``seriatim init``: the project that it writes runs, as its own tests say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import seriatim
from seriatim.cli.main import main
from tests.absent import EXTRA_PACKAGES, run_without
from tests.command import environment

TEMPLATES = Path(seriatim.__file__).parent / "cli" / "project"
WRITTEN = [
    ".gitignore",
    "README.md",
    "box.yaml",
    "conftest.py",
    "inbox",
    "orders.py",
    "pipeline.yaml",
    "publish.py",
    "test_orders.py",
]


def init(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["init", *map(str, words)])


def names(folder: str | Path) -> list[str]:
    return sorted(one.name for one in Path(folder).iterdir())


def test_a_project_is_written_with_what_to_do_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    done = init("my shop")
    assert done.exit_code == 0, done.output
    assert names("my shop") == WRITTEN
    assert names("my shop/inbox") == ["1.json", "2.json"]
    assert Path("my shop/orders.py").read_bytes() == (TEMPLATES / "orders.py").read_bytes()
    commands = [line.partition("#")[0].strip() for line in done.stdout.partition("Next:\n")[2].splitlines()]
    assert commands == [
        "cd 'my shop'",
        f"{Path(sys.executable).name} publish.py",
        "seriatim work orders --handler orders:handle",
        "seriatim groups",
        "seriatim run pipeline.yaml --once",
        "cat README.md",
    ]
    monkeypatch.setenv("PATH", os.defpath)
    commands = [line.partition("#")[0].split() for line in init("other").stdout.partition("Next:\n")[2].splitlines()]
    assert commands[1] == [sys.executable, "publish.py"]
    assert commands[2][0] == str(Path(sys.executable).with_name("seriatim"))


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "orders.py").write_text("mine")
    told = init(tmp_path)
    assert (told.exit_code, told.stderr) == (
        2,
        f"error: {tmp_path}: the folder isn't empty (name a new one, or give --force)\n",
    )
    assert names(tmp_path) == ["notes.txt", "orders.py"]
    assert init(tmp_path, "--force").exit_code == 0
    assert names(tmp_path) == sorted([*WRITTEN, "notes.txt"])
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "orders.py").read_text() != "mine"


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        told = init(place)
        assert told.exit_code == 2
        assert "can't write the project" in told.stderr
        assert told.stderr.endswith("(name a new folder)\n")


@pytest.mark.proves("a written project passes its own tests, in a process that knows nothing of ours")
@pytest.mark.spark
def test_the_tests_of_a_written_project_pass(tmp_path):
    folder = tmp_path / "shop"
    assert init(folder).exit_code == 0
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'run'}"]
    ran = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


@pytest.mark.proves("the tests of a written project run on the server of the application, where no extra is installed")
def test_its_tests_run_on_the_server_of_the_application(tmp_path, postgresql, monkeypatch):
    assert init(tmp_path / "shop").exit_code == 0
    monkeypatch.setenv("SERIATIM_DSN", postgresql)
    monkeypatch.delenv("SERIATIM_TEST_DSN", raising=False)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path / 'shop'}", str(tmp_path / "shop")]
    ran = run_without(EXTRA_PACKAGES, words, tmp_path)
    assert "1 passed, 1 skipped" in ran.stdout, ran.stdout + ran.stderr
