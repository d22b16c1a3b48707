"""Two versions of seriatim and one box: processes of the version before end, and say why; the newer one goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.postgres.migrate import migrations
from seriatim.operations import groups

pytestmark = pytest.mark.dear

SOURCE = Path(sq.__file__).parent
#: What the newer version calls otherwise, in its SQL and its Python.
RENAMED = {"turn_entries": "entries_of_turn", "take_in_one": "take_one_in"}
STEP = "ALTER TABLE {schema}.known_groups ADD COLUMN noted text;\n"
HANDLER = """
def handle(message, tx):
    tx.connection.execute("INSERT INTO handled VALUES (%s)", [message.body.decode()])
"""


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a newer seriatim: other functions, and one migration more."""
    folder = tmp_path_factory.mktemp("newer")
    shutil.copytree(SOURCE, folder / "seriatim", ignore=shutil.ignore_patterns("__pycache__"))
    names = re.compile(rf"\b({'|'.join(RENAMED)})\b")
    for path in [*folder.rglob("*.sql"), *folder.rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        if names.search(text):
            path.write_text(names.sub(lambda found: RENAMED[found[1]], text), encoding="utf-8")
        if path.stem in RENAMED:
            path.rename(path.with_stem(RENAMED[path.stem]))
    number = migrations()[-1].number + 1
    migration = folder / f"seriatim/box/postgres/migrations/{number:04}_noted.sql"
    migration.write_text(STEP, encoding="utf-8")
    return folder


def start(folder: Path, dsn: str, version: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "handled.py").write_text(HANDLER)
    environment = os.environ | {"PYTHONPATH": f"{version}:{folder}", "SERIATIM_DSN": dsn}
    return subprocess.Popen(
        [sys.executable, "-m", "seriatim", *words],
        cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def done(process: subprocess.Popen[str], code: int = 0) -> str:
    try:
        told, errors = process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        process.kill()
        told, errors = process.communicate()
    assert process.returncode == code, errors
    return told + errors


def order(version: int, to: str = "q") -> sq.Message:
    return sq.Message(type="order", body=b"%d" % version, context={"customer": "c", "version": version, "to": to})


@pytest.mark.proves("processes of the version before end when the box is migrated under them, and say why")
def test_processes_of_the_version_before_are_told_to_restart(databases, tmp_path, newer):
    with databases.clone() as dsn:
        sq.MessageBox.migrate(dsn)
        with sq.MessageBox.open(dsn) as box:
            told_of_an_older_version(box, tmp_path, newer)


def told_of_an_older_version(box: sq.MessageBox, folder: Path, newer: Path) -> None:
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("q", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("other", policy=sq.Standard(), group="customer", sequence="version"),
    )
    with box.session() as tx:
        tx.connection.execute("CREATE TABLE handled (body text)")
    worker = start(folder, box.dsn, SOURCE.parent, "work", "q", "--handler", "handled:handle")
    with psycopg.connect(box.dsn, autocommit=True) as look:
        for version in range(1, 11):  # so often that the statements are prepared
            box.publish(order(version))
        box.publish(order(1, to="other"))
        while look.execute("SELECT count(*) FROM handled").fetchone() != (10,):
            assert worker.poll() is None
        assert f"applied {migrations()[-1].number + 1:04} noted" in done(
            start(folder, box.dsn, newer, "box", "migrate")
        )
        for call in (lambda: box.publish(order(11)), lambda: received(box, "other")):
            with pytest.raises(sq.BoxMigrated, match="has migrated the message box: it has version") as caught:
                call()
            assert "restart this process" in caught.value.remedy
        assert groups.groups(box)  # what is as it was goes on
        publish = f"import seriatim as sq; sq.MessageBox.open().publish(sq.Message(type='order', body=b'11', context={order(11).context}))"
        publisher = subprocess.run(
            [sys.executable, "-c", publish], check=False, env=os.environ | {"PYTHONPATH": str(newer), "SERIATIM_DSN": box.dsn},
            capture_output=True, text=True,
        )  # fmt: skip
        assert publisher.returncode == 0, publisher.stderr
        assert "restart this process" in done(worker, 3)
        assert "this seriatim knows" in done(start(folder, box.dsn, SOURCE.parent, "queues"), 3)
        done(start(folder, box.dsn, newer, "work", "q", "--handler", "handled:handle", "--once"))
        assert look.execute("SELECT count(*) FROM handled").fetchone() == (11,)


def received(box: sq.MessageBox, queue: str) -> None:
    with box.session() as tx:
        tx.receive(queue)
