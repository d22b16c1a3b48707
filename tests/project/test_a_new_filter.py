"""A new filter of a list is a field of its listing and a condition of its statement: everything else comes from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import seriatim as sq
from tests.box.console import define, failing, publish

_ROOT = Path(__file__).parents[2]
#: What is changed: a line before another one, by file.
_CHANGES = {
    "box/views/faults.py": ("    kind: FaultKind", '    worker: str | None = listing.text("faults of this worker")\n'),
    "box/postgres/sql/parts/fault_fits.sql": (
        "AND {in_time(one.at)}",
        "AND (%(worker)s::text IS NULL OR one.worker = %(worker)s)\n",
    ),
}
_LOOK = """
import inspect, sys
from click.testing import CliRunner
from scripts import filters_page
from seriatim.cli.main import main
from seriatim.console.pages import pages
from seriatim.operations import faults
import seriatim as sq

dsn, schema, mine = sys.argv[1:]
assert "worker" in inspect.signature(faults.faults).parameters
assert "worker" in inspect.signature(faults.faults_by_error).parameters
assert "worker: Only faults of this worker." in faults.faults.__doc__
assert "Only faults of this worker." in CliRunner().invoke(main, ["faults", "--help"]).output
assert [(one.name, one.label) for page in pages() if page.title == "Faults" for one in page.fields if one.name == "worker"] == [("worker", "Worker")]
assert "| `--worker WORKER` | only faults of this worker |" in filters_page.cli_page()
assert "kind, worker" in filters_page.operations_page() or "worker, kind" in filters_page.operations_page()
with sq.MessageBox.open(dsn, schema=schema, create=False) as box:
    assert len(faults.faults(box, worker=mine)) == 1
    assert faults.faults(box, worker="nobody") == []
for worker, lines in ((mine, 2), ("nobody", 1)):
    found = CliRunner().invoke(main, ["faults", "--worker", worker, "--dsn", dsn, "--schema", schema])
    assert (found.exit_code, len(found.output.splitlines())) == (0, lines), found.output
"""


@pytest.fixture
def changed(tmp_path):
    """The source with a new filter."""
    shutil.copytree(_ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("scripts", "docs"):
        (tmp_path / name).symlink_to(_ROOT / name)
    for name, (before, line) in _CHANGES.items():
        file = tmp_path / "src" / "seriatim" / name
        text = file.read_text(encoding="utf-8")
        assert text.count(before) == 1, name
        file.write_text(text.replace(before, line + before), encoding="utf-8")
    return tmp_path


@pytest.mark.dear
def test_a_new_filter_touches_two_files_and_is_in_every_face(box, changed):
    define(box, sq.Fifo())
    publish(box, 1)
    failing(box)
    with box.session() as tx:
        ((worker,),) = tx.connection.execute(f"SELECT worker FROM {box.schema}.faults").fetchall()
    paths = os.pathsep.join([str(changed / "src"), str(_ROOT)])
    look = [sys.executable, "-c", _LOOK, box.dsn, box.schema, worker]
    done = subprocess.run(look, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
