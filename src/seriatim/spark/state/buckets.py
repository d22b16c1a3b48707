"""Buckets: the parts into which the groups of an operator are cut.

A bucket is a key of Spark's state; Spark's hash of its id decides its partition. The ids are chosen so
that buckets are spread evenly: if the number of partitions divides the number of buckets, all partitions get the same
number.
"""

from __future__ import annotations

from functools import cache

#: Enough for 16 cores, few enough that a small batch which touches them all is cheap.
DEFAULT_BUCKETS = 16

_MASK = 2**32 - 1


@cache
def _ids(buckets: int, first: int, step: int) -> tuple[int, ...]:
    free = set(range(buckets))
    ids = [0] * buckets
    candidate = first
    while free:
        place = _murmur3(candidate) % buckets
        if place in free:
            free.remove(place)
            ids[place] = candidate
        candidate += step
    return tuple(ids)


def bucket_ids(buckets: int) -> list[int]:
    """The id of each bucket: ids[b] is an int that Spark's hash sends to partition b of `buckets`."""
    return list(_ids(buckets, 0, 1))


def partition_keys(partitions: int) -> list[int]:
    """A key for each partition, below 0. Spark calls an operator with the keys of a partition in ascending order: with this one first."""
    return list(_ids(partitions, -1, -1))


def _murmur3(value: int) -> int:
    """Spark's hash of an int (MurmurHash3 x86 32-bit by Austin Appleby, for a block of 4 bytes and the seed 42), as a signed number."""

    def rotate(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & _MASK

    block = rotate(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    h = (rotate(42 ^ block, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h
