"""Where keys stand among those that a bucket knows: the same by either look-up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from seriatim.spark.resequence import bucket


@pytest.mark.parametrize("known", [0, 1, 7, 8, 9, 5_000])
def test_few_keys_among_many_are_found_as_many_among_few(known, monkeypatch):
    random = np.random.default_rng(known)
    every = random.permutation(2 * known + 4)
    there = pa.array([b"k%d" % n for n in every[:known]], pa.binary())
    wanted = random.permutation(np.concatenate([every[: min(known, 3)], every[known : known + 4]]))
    keys = pa.array([b"k%d" % n for n in wanted], pa.binary())
    place = {key: row for row, key in enumerate(there.to_pylist())}
    expected = [place.get(key, -1) for key in keys.to_pylist()]
    for many in (0, 10**9):
        monkeypatch.setattr(bucket, "_MANY", many)
        assert bucket._places(keys, there).tolist() == expected
