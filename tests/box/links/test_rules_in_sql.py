"""What the schema decides about streams is what the model decides, on rows by chance."""

from __future__ import annotations

import numpy as np

from tests.models import chain, streams
from tests.soak import seed

_ROWS = 5_000


def _chances(number):
    return np.random.default_rng(seed() + number)


def test_a_receiver_decides_as_the_model_does(box):
    chance = _chances(1)

    def number(most):
        return chance.integers(0, most, _ROWS)

    def flag():
        return chance.integers(0, 4, _ROWS) == 0

    kind = chance.integers(0, 3, _ROWS)
    known = streams.Receivers(number(6), flag(), flag(), number(7) - 1)
    batches = streams.Batches(kind, number(6), np.where(kind == 0, number(6), 0), ~flag(), ~flag(), flag())
    verdicts = streams.received(known, batches)
    rows = _decided(
        box,
        "link_verdict",
        [*known.lists(), *batches.lists()],
        "bigint boolean boolean bigint bigint bigint bigint boolean boolean boolean",
    )
    assert rows == list(zip(*verdicts.lists(), strict=True))


def test_a_sender_decides_as_the_model_does(box):
    chance = _chances(2)

    def number(most):
        return chance.integers(0, most, _ROWS)

    def flag():
        return chance.integers(0, 2, _ROWS) == 0

    kept = number(5)
    acked = kept + number(4)
    senders = streams.Senders(acked, acked + number(4), kept, number(3))
    answers = streams.Answers(number(5), number(12), flag(), flag(), flag())
    decisions, through = streams.answered(senders, answers)
    above, unproven = streams.lost_above(senders, answers)
    side = streams.went_back(senders, answers)
    given = (senders.acked, senders.sent, senders.kept, senders.status, *answers.lists())
    rows = _decided(
        box,
        "link_decision",
        [list(one) for one in given],
        "bigint bigint bigint integer integer bigint boolean boolean boolean",
    )
    assert rows == list(zip(*(one.tolist() for one in (decisions, through, side, above, unproven)), strict=True))


def test_chains_are_the_kernels(box):
    chance = _chances(3)
    ids = [bytes(chance.integers(97, 123, 8).tolist()) for _ in range(50)]
    digests = [bytes(chance.bytes(32)) for _ in ids]
    begins = chain.first(b"x" * 16)
    with box.session() as tx:
        (found,) = tx.connection.execute(
            f"SELECT {box.schema}.link_chains(array_fill(1::bigint, ARRAY[50]), array_fill(%s::bytea, ARRAY[50]), %s, %s)",
            [begins, [one.decode() for one in ids], digests],
        ).fetchone()
    assert found == chain.extended(begins, ids, digests)[1:]


def _decided(box, function, columns, types):
    """What a function of the schema answers, row by row."""
    arrays = ", ".join(f"%s::{kind}[]" for kind in types.split())
    names = ", ".join(f"a{nth}" for nth in range(len(columns)))
    with box.session() as tx:
        return tx.connection.execute(
            f"SELECT decided.* FROM unnest({arrays}) WITH ORDINALITY AS one ({names}, nth)"
            f" CROSS JOIN LATERAL {box.schema}.{function}({names}) AS decided ORDER BY nth",
            [list(map(_plain, one)) for one in columns],
        ).fetchall()


def _plain(values):
    return values.item() if hasattr(values, "item") else values
