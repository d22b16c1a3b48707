"""Held bodies: a column that changes its type while messages are held."""

from __future__ import annotations

import pyarrow as pa
import pytest

from seriatim.spark.state.held_bodies import Bodies, MemoryChunks
from seriatim.spark.state.packets import to_bytes

ROWS = [[{"margin": 1.5, "n": "a"}, {"margin": 2.0, "n": "b"}], None, [], [None, {"margin": None, "n": "c"}]]
WANTED = [[{"margin": None, "n": "a"}, {"margin": 2, "n": "b"}], None, [], [None, {"margin": None, "n": "c"}]]


def outputs(of, margin):
    return of(pa.struct({"margin": margin, "n": pa.string()}))


@pytest.mark.parametrize("of", [pa.list_, pa.large_list])
def test_a_returned_value_that_doesn_t_fit_its_new_type_is_null_also_among_several_outputs(of):
    held = pa.array([*ROWS, [{"margin": 0.5, "n": "not taken"}]], outputs(of, pa.float64())).slice(0, 4)
    packet = to_bytes(pa.table({"_outputs": held})).to_pybytes()
    schema = pa.schema({"_outputs": outputs(of, pa.int64())})
    (found,) = Bodies(MemoryChunks({0: packet}), {0: 4}, schema).table(0).columns
    assert found.to_pylist() == WANTED
    assert found.type == schema.field(0).type


def test_a_value_in_a_struct_that_doesn_t_fit_is_null_alone():
    kind = {"margin": pa.float64(), "n": pa.string()}
    held = pa.array([{"margin": 1.5, "n": "a"}, None, {"margin": 2.0, "n": None}], pa.struct(kind))
    packet = to_bytes(pa.table({"one": held.slice(0, 3)})).to_pybytes()
    schema = pa.schema({"one": pa.struct(kind | {"margin": pa.int64()})})
    (found,) = Bodies(MemoryChunks({0: packet}), {0: 3}, schema).table(0).columns
    assert found.to_pylist() == [{"margin": None, "n": "a"}, None, {"margin": 2, "n": None}]
