"""Short words for what tests of dialogs do again and again."""

from __future__ import annotations


def begun(box, *bodies, **options):
    """A dialog with some messages; the handle of the initiator."""
    with box.session() as tx:
        handle = tx.begin_dialog("Orders", "Inventory", contract="AddItem", **options)
        for body in bodies:
            tx.send(handle, "AddItem", body)
    return handle


def taken(box, queue, limit=100, **options):
    """What a queue gives next, as (type, body); the delivery is done."""
    with box.session() as tx:
        delivery = tx.receive(queue, limit=limit, **options)
        return [] if delivery is None else [(one.type, one.body) for one in delivery]


def let_expire(box, handle):
    """The lifetime of a dialog is over."""
    with box.session() as tx:
        tx.connection.execute(
            f"UPDATE {box.schema}.endpoints SET expires_at = now() - interval '1 s' WHERE conversation_id = "
            f"(SELECT conversation_id FROM {box.schema}.endpoints WHERE handle = %s)",
            [handle],
        )


def states(box):
    """By handle the state of each side."""
    with box.session() as tx:
        rows = tx.connection.execute(f"SELECT handle, state FROM {box.schema}.dialogs").fetchall()
    return dict(rows)


def far_of(box, handle):
    """The handle of the other side of a dialog."""
    with box.session() as tx:
        (found,) = tx.connection.execute(
            f"SELECT far.handle FROM {box.schema}.endpoints AS own "
            f"JOIN {box.schema}.endpoints AS far USING (conversation_id) "
            f"WHERE own.handle = %s AND far.handle <> own.handle",
            [handle],
        ).fetchone()
    return found
