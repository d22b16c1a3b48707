"""Why messages were set aside is counted by kinds of reasons, and not without bound."""

from __future__ import annotations

import json

import pyarrow as pa

from seriatim.spark.deliver.set_aside_reasons import OTHER, ReasonCounts, SetAsideReason, by_frequency, merged


def rows(*told):
    """Rows as the workers write them: (disposition, reason) each; a released one has no text."""
    lines = [
        None if disposition == "released" else json.dumps({"message_id": f"m{n}", "group": "c1", "sequence": n})
        for n, (disposition, _) in enumerate(told)
    ]
    dispositions, reasons = zip(*told, strict=True)
    columns = {
        "disposition": pa.array(dispositions),
        "reason": pa.array(reasons),
        "_line": pa.array(lines, pa.string()),
    }
    return pa.table({"destination": pa.array(["a"] * len(told)), **columns})


def test_reasons_that_differ_in_what_they_quote_are_one():
    counts = ReasonCounts()
    counts.add(
        rows(
            ("released", None),
            ("invalid", "n: 'x' is not a long"),
            (None, '{"bucket": 0}'),
            ("invalid", "n: 'yy' is not a long"),
            ("duplicate", "its number was taken in before"),
        )
    )
    counts.add(rows(("invalid", 'n: "z" is not a long'), ("unrouted", None), ("dead", None)))
    found = by_frequency(counts.found())
    assert [(one.disposition, one.reason, one.messages, one.message_id) for one in found] == [
        ("invalid", "n: 'x' is not a long", 3, "m1"),
        ("dead", "", 1, "m2"),
        ("duplicate", "its number was taken in before", 1, "m4"),
    ]
    assert (found[0].destination, found[0].group, found[0].sequence) == ("a", "c1", 1)
    assert [SetAsideReason.from_json(one.to_json()) for one in found] == list(found)


def test_beyond_a_number_of_kinds_they_are_other_reasons():
    words = [f"{first}{second}" for first in "abcdefgh" for second in "stuvwxyz"]
    told = [SetAsideReason("a", "invalid", f"no {word}", 2, word) for word in words]
    found = by_frequency(merged(told).values())
    assert len(found) == 51
    assert found[-1].reason == OTHER
    assert found[-1].destination is None
    assert sum(one.messages for one in found) == 128
    assert by_frequency(merged([*found, *found]).values())[-1].messages == 2 * found[-1].messages
