"""Many dialogs between two boxes, some with an error or a clean-up, leave nothing behind in either box."""

from __future__ import annotations

import time

import pytest

from seriatim.box.dialogs.clock import forget_closed
from seriatim.operations import invariants, links
from tests.dialogs.far_boxes import exchange, two_boxes
from tests.soak import sized

DIALOGS = sized(100_000, 200)
_BATCH = 500
_LEAVES = (
    "endpoints",
    "known_transmission",
    "dialog_inbox",
    "dialog_records",
    "entries",
    "link_messages",
    "known_groups",
)


def carried(north, south):
    """Carry all both ways, and receive all at both ends: a side ends when the other has ended, or failed."""
    while True:
        (done,) = links.transmit(north, at_once=True)
        assert done.error is None, done.error
        for box, queue in ((north, "bought"), (south, "sales")):
            with box.access.transaction() as transaction:
                while transaction.value("obey_waiting", at_most=1000):
                    transaction.commit()
            with box.session() as tx:
                while (delivery := tx.receive(queue, limit=100)) is not None:
                    for message in delivery:
                        if message.type in ("EndDialog", "Error"):
                            tx.end(message.dialog.handle)
        if not any(rows(box, "transmission") or rows(box, "dialog_inbox") for box in (north, south)):
            return


def rows(box, table):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT count(*) FROM {box.schema}.{table}").fetchone()[0]


@pytest.mark.proves("dialogs between boxes leave no row of a side, whichever way they end")
@pytest.mark.soak
def test_dialogs_that_end_fail_or_are_cleaned_up_leave_nothing(databases, figures):
    begun = time.monotonic()
    with two_boxes(databases) as (north, south):
        for first in range(0, DIALOGS, _BATCH):
            handles = []
            for _ in range(first, min(first + _BATCH, DIALOGS), 50):
                with north.session() as tx:
                    some = [tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder") for _ in range(50)]
                    tx.send_many([(handle, "Line", b"%d" % nth) for handle in some for nth in range(5)])
                handles += some
            carried(north, south)
            with north.session() as tx:
                for nth, handle in enumerate(handles):
                    tx.end(handle, error=(7, "no") if nth % 10 == 0 else None, cleanup=nth % 10 == 1)
            carried(north, south)
            for box in (north, south):
                with box.access.transaction() as transaction:
                    assert forget_closed(transaction, 0) == len(handles)
        exchange(north, 3)  # The streams of what is forgotten are closed.
        for box in (north, south):
            assert {table: rows(box, table) for table in _LEAVES} == dict.fromkeys(_LEAVES, 0)
            assert rows(box, "link_streams_out") <= 1  # that of the records
            assert rows(box, "link_streams_in") <= 1
            with box.session() as tx:
                (pieces,) = tx.connection.execute(
                    f"SELECT max((SELECT count(*) FROM unnest(over))) FROM {box.schema}.conversations"
                ).fetchone()
            assert (pieces or 0) <= 1
            assert invariants.broken(box) == []
    figures(f"{DIALOGS:,} dialogs of five messages in {time.monotonic() - begun:.0f} s")
