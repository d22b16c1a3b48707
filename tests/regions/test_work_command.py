"""``seriatim work --regions``: work in one of two regions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from tests.command import command
from tests.regions.test_worker import Log
from tests.regions.two import NAME, message

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(two, tmp_path):
    path = tmp_path / "regions.yaml"
    path.write_text(
        f"name: {NAME}\nprimary: {two.first.dsn}\nsecondary: {two.second.dsn}\njournal: {two.journal_dsn}\n"
        f"schema: {two.first.schema}\n"
    )
    return path


def test_processes_of_a_region_work_until_nothing_is_left(two, file):
    log = Log(two)
    two.regions.publish([message("s", number) for number in (1, 2)])
    words = [
        "work",
        "status",
        "--regions",
        str(file),
        "--region",
        "a",
        "--handler",
        "tests.regions.given_handlers:note",
        "--once",
    ]
    done = subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "handlers got 2 messages" in done.stdout
    assert log.of("s") == [(1, "process"), (2, "process")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--region", "a"], "--region needs --regions"),
        (["--regions", "FILE"], "--regions needs --region"),
        (["--regions", "FILE", "--region", "a", "--port", "http: {url: 'https://x'}"], "--port and --regions"),
        (["--regions", "FILE", "--region", "a", "--mode", "leased"], "--mode and --regions"),
        (["--regions", "FILE", "--region", "a", "--dsn", "x"], "--dsn and --regions"),
        (["--regions", "nowhere.yaml", "--region", "a"], "nowhere.yaml"),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other_are_refused(words, told, tmp_path):
    file = tmp_path / "regions.yaml"
    file.write_text("primary: a\n")
    given = [str(file) if word == "FILE" else word for word in words]
    done = CliRunner().invoke(main, ["work", "status", *given])
    assert (done.exit_code, told in done.output) == (2, True), done.output
