"""Tests of the handler, on a message box of their own, and of the pipeline."""

from __future__ import annotations

import orders
import pytest
import seriatim as sq
from publish import HERE, publish, updates
from seriatim.operations import faults
from seriatim.testing import run_pipeline, work_off


def test_the_handler_gets_the_updates_of_each_customer_in_order(seriatim_box: sq.MessageBox) -> None:
    publish(seriatim_box)
    work_off(seriatim_box, "orders", orders.handle, fails=True)
    with seriatim_box.session() as tx:
        rows = tx.connection.execute("SELECT customer, version, status FROM order_updates").fetchall()
    assert [row for row in rows if row[0] == "c1"] == [("c1", 1, "ordered"), ("c1", 2, "paid"), ("c1", 3, "packed")]
    assert [row for row in rows if row[0] == "c2"] == [("c2", 1, "ordered")]  # number 2 never came
    assert [row for row in rows if row[0] == "c3"] == [("c3", 1, "ordered")]  # number 2 has a status that is unknown
    assert [one.error for one in faults.faults(seriatim_box, "orders")] == ["unknown status 'payed'"]


def test_the_pipeline_puts_the_updates_of_each_customer_in_order() -> None:
    pytest.importorskip("pyspark", reason='pip install "seriatim[spark]"')
    result = run_pipeline(HERE / "pipeline.yaml", updates())
    rows = result.released["orders"]
    found = {group: [row["sequence"] for row in rows if row["group"] == group] for group in ("c1", "c2", "c3")}
    assert found == {"c1": [1, 2, 3], "c2": [1], "c3": [1, 2, 3]}
    assert [(one.group, one.sequence, one.disposition) for one in result.set_aside] == [("c1", 2, "duplicate")]
    assert [(one.group, one.missing_first) for one in result.held] == [("c2", 2)]
