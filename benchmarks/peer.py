"""The peer: resequencing as a textbook writes it with ``transformWithStateInPandas``, a key of state for each group.

It does less than seriatim does with everything on: no time-outs, no capacity, no late ones. What it does is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

__all__ = ["by_group"]


class _Textbook(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._next = handle.getValueState("next", "version long")
        self._held = handle.getMapState("held", "version long", "body binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        state = self._next.get()
        following = 1 if state is None else state[0]
        arrived = {int(row.version): row.body for frame in rows for row in frame.itertuples(index=False)}
        leaving: list[tuple[str, int, bytes]] = []
        while True:
            if following in arrived:
                leaving.append((key[0], following, arrived.pop(following)))
            elif self._held.containsKey((following,)):
                leaving.append((key[0], following, self._held.getValue((following,))[0]))
                self._held.removeKey((following,))
            else:
                break
            following += 1
        for version, body in arrived.items():
            if version > following:
                self._held.updateValue((version,), (body,))
        self._next.update((following,))
        if leaving:
            yield pd.DataFrame(leaving, columns=["customer", "version", "body"])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield from ()

    def close(self) -> None:
        pass


def by_group(source: DataFrame) -> DataFrame:
    """The messages of a feed, put in order group by group."""
    return source.groupBy("customer").transformWithStateInPandas(
        _Textbook(), source.schema.simpleString()[len("struct<") : -1].replace(":", " "), "Append", "None"
    )
