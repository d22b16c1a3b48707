"""The measures of a worker process in memory that its supervisor sees: they outlive the process, as its scoreboard does.

There are two places, which are written in turn; a number in front says which of them counts. So a process that is killed while it writes
leaves what it wrote before.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from typing import Self

from seriatim.box.measures import Snapshot
from seriatim.runtime.workers.scoreboard import file_without_name

#: Memory is only used for what is written.
_PLACE_BYTES = 4 * 1024 * 1024
_FRONT = struct.Struct("<q")
_HEAD = struct.Struct("<qq")
_FRONT_BYTES = 4096


class MeasuresPage:
    """The measures of one process. Make it with `make` and pass its file to the process that writes; or open it with `of`."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._memory = mmap.mmap(file, _FRONT_BYTES + 2 * _PLACE_BYTES)

    @classmethod
    def make(cls) -> Self:
        return cls(file_without_name("seriatim-measures", _FRONT_BYTES + 2 * _PLACE_BYTES))

    @classmethod
    def of(cls, file: int) -> Self:
        """Open one that another process has made."""
        return cls(file)

    def write(self, measures: Snapshot) -> None:
        """Write the present values. Values that are too many for the page aren't written: the former ones stay."""
        text = json.dumps(measures.as_object(), separators=(",", ":")).encode()
        if len(text) > _PLACE_BYTES - _HEAD.size:
            return
        (turn,) = _FRONT.unpack_from(self._memory, 0)
        at = _FRONT_BYTES + (turn + 1) % 2 * _PLACE_BYTES
        self._memory[at + _HEAD.size : at + _HEAD.size + len(text)] = text
        _HEAD.pack_into(self._memory, at, len(text), zlib.crc32(text))
        _FRONT.pack_into(self._memory, 0, turn + 1)

    def read(self) -> Snapshot:
        """The values as they were last written; none if there are none yet."""
        for _ in range(3):  # two writes during this read disturb it
            (turn,) = _FRONT.unpack_from(self._memory, 0)
            at = _FRONT_BYTES + turn % 2 * _PLACE_BYTES
            length, check = _HEAD.unpack_from(self._memory, at)
            if not turn or not 0 < length <= _PLACE_BYTES - _HEAD.size:
                continue
            text = bytes(self._memory[at + _HEAD.size : at + _HEAD.size + length])
            if zlib.crc32(text) == check:
                return Snapshot.of(json.loads(text))
        return Snapshot()

    def close(self) -> None:
        """Close it. Its content is gone with the last process that has it open."""
        self._memory.close()
        os.close(self.file)
