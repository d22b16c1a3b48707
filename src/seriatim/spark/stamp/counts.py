"""Tickets by counts: no message moves to be stamped.

A task that reads messages numbers them by block, a part of a file, and tells every partition of the next operator the number of messages in
each block. Each partition puts the blocks in order of arrival and adds their counts up, all with the same result: the position of the first
ticket of each block. So each partition keeps a copy of the counters, under a key of its own, and buckets without messages aren't called.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.errors import InvariantBroken
from seriatim.spark.stamp.operator import StampPlan, ticket_column
from seriatim.spark.state.packets import from_bytes
from seriatim.spark.state.ticket_counters import Counters

#: Columns of a message: its block, a number that no other block of the batch has; and its place among the block's messages, from 0. A
#: message without a ticket has -1.
BLOCK, NTH = "__sq_block", "__sq_nth"
#: What a task tells: blocks, their places in the order of arrival, and the number of messages with tickets in each.
COUNTS = pa.schema(
    [
        ("block", pa.int64()),
        ("location", pa.string()),
        ("received_at", pa.int64()),
        ("file", pa.string()),
        ("start", pa.int64()),
        ("count", pa.int64()),
    ]
)
_PLACE = [(name, "ascending") for name in ("location", "received_at", "file", "start")]


class TicketsByCounts:
    def __init__(self, plan: StampPlan) -> None:
        self._plan = plan
        self._begins: dict[int, int] = {}

    def count(self, value: bytes | None, told: Iterable[bytes]) -> bytes:
        """Take in what the tasks tell of a batch; return the counters after it. `value`: the counters before it, None: they are new."""
        counters = Counters() if value is None else Counters.from_bytes(value, self._plan.fingerprint)
        counters.at_least(self._plan.following)
        blocks = pa.concat_tables([COUNTS.empty_table(), *map(from_bytes, told)]).sort_by(_PLACE)
        names = blocks.column("location").combine_chunks().dictionary_encode()
        row = counters.enrol(names.dictionary)[names.indices.to_numpy()]
        for block, of, count in zip(
            blocks.column("block").to_pylist(), row.tolist(), blocks.column("count").to_pylist(), strict=True
        ):
            self._begins[block] = int(counters.following[of])
            counters.following[of] += count
        return counters.to_bytes(self._plan.fingerprint)

    def stamped(self, messages: pa.Table) -> pa.Table:
        if BLOCK not in messages.column_names:
            return messages
        blocks = messages.column(BLOCK).combine_chunks().dictionary_encode()
        nth = messages.column(NTH).to_numpy()
        begins = np.array([self._begins.get(block, 0) for block in blocks.dictionary.to_pylist()], np.int64)
        begin = begins[blocks.indices.to_numpy()] if len(blocks) else begins
        if (begin[nth >= 0] == 0).any():
            raise InvariantBroken(
                "a partition of the operator wasn't told how many messages the blocks of its messages have"
            )
        position = np.where(nth < 0, 0, begin + nth)
        location = messages.column("location").combine_chunks()
        location = pc.if_else(pa.array(nth >= 0), location, pa.scalar(None, location.type))
        ticket = ticket_column(self._plan, location, position)
        place = messages.column_names.index(BLOCK)
        return messages.set_column(place, "ticket", ticket).drop_columns([NTH])
