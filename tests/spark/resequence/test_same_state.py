"""A call of the operator that runs again comes to the same state, whatever order a shuffle brings its packets in."""

from __future__ import annotations

from itertools import permutations

from tests.spark.resequence.one_bucket import OneBucket, packet


def state_after(packets: tuple[bytes, ...]) -> tuple[bytes | None, dict[int, bytes]]:
    bucket = OneBucket(reports=False)
    bucket.called(1_700_000_000_000_000, packets)
    return bucket.index(), bucket.bodies()


def test_the_order_of_packets_leaves_no_trace() -> None:
    packets = (packet([("b", 2, 10), ("a", 3, 11)]), packet([("c", 7, 12), ("b", 5, 13)]), packet([("a", 2, 14)]))
    found = [state_after(order) for order in permutations(packets)]
    index, bodies = found[0]
    assert index is not None
    assert bodies, "all of it waits behind a hole"
    assert all(other == found[0] for other in found)
