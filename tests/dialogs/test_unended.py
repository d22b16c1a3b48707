"""Dialogs that one side never ends are told before there are many: in the log, by `doctor` and by the metrics."""

from __future__ import annotations

import seriatim as sq
from seriatim.box.views.figures import read_figures
from seriatim.operations.doctor import work_checks
from tests.dialogs.talking import begun, far_of, states

WAY = "service 'Inventory' hasn't ended "


def ended_by_one(box, count=1):
    """As many dialogs of which the initiator has ended its side at once; their handles."""
    handles = [begun(box, b"1") for _ in range(count)]
    with box.session() as tx:
        for handle in handles:
            tx.end(handle)
    return handles


def received(box, queue="inventory", ends=lambda tx, message: None):
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=9)
            if delivery is None:
                return
            delivery.done()
            for message in delivery.messages:
                if message.type in ("EndDialog", "Error"):
                    ends(tx, message)


def finding(box):
    return work_checks.CHECKS["dialogs"](work_checks.Work(box))


def test_a_side_that_stays_is_told_once_in_the_log_and_found_by_the_doctor(talk, caplog):
    ended_by_one(talk, 3)
    assert finding(talk).state.value == "ok"  # what waits may still end it
    received(talk)
    lines = [one for one in caplog.records if "doesn't end its own side" in one.getMessage()]
    assert len(lines) == 1
    assert "queue 'inventory' completes the EndDialog" in lines[0].getMessage()
    found = finding(talk)
    assert (found.state.value, WAY + "3 dialogs" in found.found) == ("warning", True)
    assert "tx.end(message.dialog.handle) at the receivers of queue 'inventory'" in found.remedy


def test_a_side_that_failed_and_stays_is_told_as_well(talk, caplog):
    handle = begun(talk, b"1")
    with talk.session() as tx:
        tx.end(handle, error=(1, "no"))
    received(talk)
    assert "completes the Error" in caplog.text
    assert WAY + "1 dialog" in finding(talk).found


def test_who_ends_its_side_after_the_delivery_is_done_is_told_nothing(talk, caplog):
    (handle,) = ended_by_one(talk)
    far = far_of(talk, handle)
    received(talk, ends=lambda tx, message: tx.end(message.dialog.handle))
    assert "doesn't end its own side" not in caplog.text
    assert finding(talk).state.value == "ok"
    assert states(talk)[far] == "CD"


def test_a_worker_ends_its_side_and_is_told_nothing(talk, caplog):
    ended_by_one(talk, 2)
    sq.Worker(talk, "inventory", lambda message, tx: None, workers=1).run(until_idle=True)
    assert "doesn't end its own side" not in caplog.text
    assert finding(talk).state.value == "ok"


def test_the_figures_have_the_sides_by_service_and_state(talk):
    ended_by_one(talk, 2)
    received(talk)
    begun(talk)
    with talk.access.transaction() as transaction:
        figures = read_figures(transaction, 30.0)
    sides = {(one.name, one.kind): one.value for one in figures if one.figure == "dialogs"}
    assert sides == {("Inventory", "DI"): 2, ("Orders", "DO"): 2, ("Orders", "SO"): 1}
    ages = {(one.name, one.kind): one.value for one in figures if one.figure == "dialog_seconds"}
    assert ages.keys() == sides.keys()
    assert min(ages.values()) > 0
