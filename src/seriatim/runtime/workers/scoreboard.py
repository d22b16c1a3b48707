"""The scoreboard: shared memory in which each thread of a worker notes its group, so that a supervisor can read it after a crash.

Processes share the memory, so its content stays when the process that wrote it is killed. One thread writes a slot, and
others read it: the thread writes first the messages in hand, and last the mark that the slot is valid.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Self

__all__ = ["Scoreboard", "Slot", "Work"]

#: A mark, the turn, when it began (ns of the machine's monotonic clock), PostgreSQL's process, the entry, the lease,
#: lengths of texts.
_HEAD = struct.Struct("<qqqqqqHH")
_QUEUE_BYTES, _GROUP_BYTES = 512, 1024
_SLOT_BYTES = 2048
_IDLE, _TURN, _CALL = 0, 1, 2
_NO_GROUP = 0xFFFF
_MARK = struct.Struct("<q")
_TURN_AT = 8
_ENTRY_AT, _ENTRY = 32, struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class Work:
    """The content of a slot.

    Args:
        turn: the number of the turn.
        since: the seconds since its begin.
        backend_pid: the server process of its connection.
        queue: the queue's name.
        group: the group's key; None without groups.
        entry_id: the entry of the message whose handler runs; None if none runs.
        token: the token of its lease; None without a lease.
    """

    turn: int
    since: float
    backend_pid: int
    queue: str
    group: str | None
    entry_id: int | None
    token: int | None = None


class Slot:
    """The part of a scoreboard that belongs to one thread.

    Args:
        memory: the memory of the scoreboard.
        at: its place in the memory.
    """

    def __init__(self, memory: mmap.mmap, at: int) -> None:
        self._memory = memory
        self._at = at
        self._turn = 0
        self._lock = threading.Lock()
        self._claimed = 0

    def begin(self, queue: str, group: str | None, backend_pid: int, token: int | None = None) -> None:
        """A turn begins; in leases, the turn of a message."""
        with self._lock:
            self._turn += 1
            name = queue.encode()
            key = b"" if group is None else group.encode()
            _MARK.pack_into(self._memory, self._at, _IDLE)
            _HEAD.pack_into(
                self._memory, self._at, _IDLE, self._turn, time.monotonic_ns(), backend_pid, 0, token or 0, len(name),
                _NO_GROUP if group is None else len(key),
            )  # fmt: skip
            start = self._at + _HEAD.size
            self._memory[start : start + len(name)] = name
            start += _QUEUE_BYTES
            self._memory[start : start + len(key)] = key
            _MARK.pack_into(self._memory, self._at, _TURN)

    def call(self, entry_id: int) -> None:
        """The handler is called with this message, or with this one first."""
        _ENTRY.pack_into(self._memory, self._at + _ENTRY_AT, entry_id)
        _MARK.pack_into(self._memory, self._at, _CALL)

    def returned(self) -> None:
        """The handler has returned."""
        _MARK.pack_into(self._memory, self._at, _TURN)

    def end(self) -> None:
        """The turn has ended."""
        with self._lock:
            _MARK.pack_into(self._memory, self._at, _IDLE)

    def claim(self, turn: int) -> bool:
        """Claim a running turn that took too long, to record that; False if the turn is over, or was claimed before.

        From then on the slot has no messages in hand for its readers. Only the process that writes the slot claims.
        """
        with self._lock:
            is_idle = _MARK.unpack_from(self._memory, self._at)[0] == _IDLE
            if is_idle or self._turn != turn or self._claimed >= turn:
                return False
            self._claimed = turn
            _MARK.pack_into(self._memory, self._at, _IDLE)
            return True

    @property
    def has_begun(self) -> bool:
        """Whether there has been a turn."""
        return bool(_MARK.unpack_from(self._memory, self._at + _TURN_AT)[0])

    def read(self) -> Work | None:
        """The work in hand, if any. Another thread may write meanwhile: check later that the `turn` is the same."""
        mark, turn, begun_ns, backend_pid, entry_id, token, queue, group = _HEAD.unpack_from(self._memory, self._at)
        if mark == _IDLE:
            return None
        start = self._at + _HEAD.size
        name = bytes(self._memory[start : start + queue])
        start += _QUEUE_BYTES
        key = None if group == _NO_GROUP else bytes(self._memory[start : start + group])
        return Work(
            turn,
            (time.monotonic_ns() - begun_ns) / 1e9,
            backend_pid,
            name.decode(errors="replace"),
            None if key is None else key.decode(errors="replace"),
            entry_id if mark == _CALL else None,
            token or None,
        )


class Scoreboard:
    """The slots of a process. Make it with `make` and pass its file to the process that writes; or open it with `of`.

    Args:
        file: its open file.
        slots: the number of slots.
    """

    def __init__(self, file: int, slots: int) -> None:
        self.file = file
        self._memory = mmap.mmap(file, slots * _SLOT_BYTES)
        self.slots = [Slot(self._memory, at * _SLOT_BYTES) for at in range(slots)]

    @classmethod
    def make(cls, slots: int) -> Self:
        """Make a new, empty scoreboard in a file without a name; in memory if the system can, because writing to a disk waits."""
        if hasattr(os, "memfd_create"):
            file = os.memfd_create("seriatim-scoreboard")
            os.truncate(file, slots * _SLOT_BYTES)
            return cls(file, slots)
        with tempfile.TemporaryFile() as kept:
            kept.truncate(slots * _SLOT_BYTES)
            return cls(os.dup(kept.fileno()), slots)

    @classmethod
    def of(cls, file: int) -> Self:
        """Open a scoreboard that another process has made."""
        return cls(file, os.fstat(file).st_size // _SLOT_BYTES)

    def close(self) -> None:
        """Close it. Its content is gone with the last process that has it open."""
        os.close(self.file)
