"""The state of a bucket of locations: the last ticket of each location.

Layout (version in the header): an Arrow IPC stream of one record batch with the columns `location` and `following`,
the position of the location's next ticket. The header (schema metadata) has the layout version and the fingerprint
of the operator that wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.kernel.values.columns import Ints, empty_ints
from seriatim.spark.state.manifest import check_header

#: Raise it whenever the layout changes.
LAYOUT = 1


@dataclass(slots=True)
class Counters:
    """Locations, and for each the position of its next ticket."""

    locations: pa.StringArray = field(default_factory=lambda: pa.array([], pa.string()))
    following: Ints = field(default_factory=empty_ints)

    def enrol(self, locations: pa.StringArray) -> Ints:
        """The rows of some locations, each named once; new locations begin at position 1."""
        places = pc.index_in(locations, value_set=self.locations)
        new = pc.is_null(places).to_numpy(zero_copy_only=False)
        count = int(new.sum())
        rows = pc.fill_null(places, 0).to_numpy().astype(np.int64)
        if count:
            rows[new] = len(self.locations) + np.arange(count)
            self.locations = pa.concat_arrays([self.locations, locations.filter(pa.array(new))])
            self.following = np.concatenate([self.following, np.ones(count, np.int64)])
        return rows

    def at_least(self, following: Mapping[str, int]) -> None:
        """Raise the counters of some locations to positions that were counted to elsewhere; none is lowered."""
        if following:
            rows = self.enrol(pa.array(list(following), pa.string()))
            self.following[rows] = np.maximum(self.following[rows], np.array(list(following.values()), np.int64))

    def to_bytes(self, fingerprint: str) -> bytes:
        header = {"seriatim": json.dumps({"layout": LAYOUT, "fingerprint": fingerprint})}
        schema = pa.schema([("location", pa.string()), ("following", pa.int64())], header)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write(pa.RecordBatch.from_arrays([self.locations, pa.array(self.following)], schema=schema))
        return sink.getvalue().to_pybytes()

    @classmethod
    def from_bytes(cls, value: bytes, fingerprint: str | None) -> Counters:
        """Read the counters from the stored value; `fingerprint` None: of whichever operator."""
        reader = pa.ipc.open_stream(value)
        check_header(json.loads(reader.schema.metadata[b"seriatim"]), LAYOUT, fingerprint)
        table = reader.read_all()
        return cls(table.column("location").combine_chunks(), table.column("following").to_numpy().copy())
