"""The example notebook runs, cell by cell, on a session as Spark makes it for everybody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from seriatim import EnvironmentProblem, Standard
from seriatim.spark import resequence

NOTEBOOK = Path(__file__).parents[3] / "examples" / "notebook.ipynb"
#: What Spark takes where nobody says anything, and a zone that isn't ours.
OF_SPARK = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.shuffle.partitions": "3",
}


@pytest.fixture
def own(spark, monkeypatch):
    """A session of the user's own: what ``SparkSession.builder.getOrCreate()`` gives here."""
    session = spark.newSession()
    for name, value in OF_SPARK.items():
        session.conf.set(name, value)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", session)
    return session


def test_a_session_that_keeps_its_state_store_says_what_to_set(own, tmp_path, monkeypatch):
    def refused(conf, name, value):
        raise AnalysisException("it can't be changed")

    stream = own.readStream.schema("g string, n long").json(str(tmp_path))
    monkeypatch.setattr(type(own.conf), "set", refused)
    with pytest.raises(
        EnvironmentProblem, match=r"stateStore\.providerClass: the Spark session keeps state where"
    ) as caught:
        resequence(stream, group="g", sequence="n", policy=Standard())
    assert caught.value.remedy.startswith("set it to org.apache.spark.sql.execution.streaming.state.RocksDB")


def test_every_cell_of_the_notebook_runs(own, capsys):
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["metadata"]["language_info"]["name"]) == (4, "python")
    named: dict[str, object] = {}
    for number, cell in enumerate(found["cells"]):
        assert cell.get("outputs", []) == []  # they would be somebody's, and old
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}:{number}", "exec"), named)
    assert named["spark"] is own
    assert [(row.customer, row.version) for row in named["ordered"].collect() if row.customer == "ann"] == [
        ("ann", 1),
        ("ann", 2),
    ]
    counts = {row.disposition: row["count"] for row in named["decided"].groupBy("disposition").count().collect()}
    assert counts == {"released": 3, "duplicate": 1, "held": 1}
    told = capsys.readouterr().out
    assert "|bob  |3       |2            |2           |waits behind a missing number|" in told
    assert "|bob  |4       |2            |2           |waits behind a missing number|" in told
    assert named["held"](named["folder"] / "checkpoint").count() == 0
    rows = own.read.json(str(named["folder"] / "out")).orderBy("customer", "ordinal").collect()
    assert [(row.customer, row.version) for row in rows] == [
        *(("ann", n) for n in (1, 2)),
        *(("bob", n) for n in (1, 2, 3, 4)),
    ]
