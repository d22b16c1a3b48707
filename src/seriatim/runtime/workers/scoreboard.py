"""The scoreboard: shared memory in which each thread of a worker notes its group, so that a supervisor can read it after a crash.

It is memory that processes share: written values stay when their process is killed. One thread writes a slot,
and others read it: first comes what is in hand, last the mark that it counts. In front of all slots stands the pulse of the
process, which goes on as long as the process isn't frozen, whatever its threads do.
"""

from __future__ import annotations

import heapq
import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

#: A mark, the turn, its begin (ns of the machine's monotonic clock), PostgreSQL's process, the entry, the lease, lengths of texts.
_HEAD = struct.Struct("<qqqqqqHH")
_QUEUE_BYTES, _GROUP_BYTES = 512, 1024
_SLOT_BYTES = 2048
_IDLE, _TURN, _CALL = 0, 1, 2
_NO_GROUP = 0xFFFF
_MARK = struct.Struct("<q")
_TURN_AT = 8
_ENTRY_AT, _ENTRY = 32, struct.Struct("<q")
#: Before all slots: the pulse (ns of the machine's monotonic clock), and how many slots have been taken at least once.
_PULSE_AT, _TAKEN_AT, _NUMBER = 0, 8, struct.Struct("<q")
_FRONT_BYTES = _SLOT_BYTES
#: How many messages handlers got, at the end of the slot.
_COUNT_AT, _COUNT = _SLOT_BYTES - 8, struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class Work:
    turn: int
    since: float
    backend_pid: int
    queue: str
    group: str | None
    #: The entry of the message whose handler runs; None if none runs.
    entry_id: int | None
    #: The token of its lease; None without a lease.
    token: int | None = None


class Slot:
    def __init__(self, memory: mmap.mmap, at: int) -> None:
        self._memory = memory
        self._at = at
        self._turn = 0
        self._lock = threading.Lock()
        self._claimed = 0
        self._has_ended = False

    def begin(self, queue: str, group: str | None, backend_pid: int, token: int | None = None) -> None:
        """A turn begins; in leases, the turn of a message."""
        with self._lock:
            self._turn += 1
            self._has_ended = False
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
        """Note that the handler is called with this message, or with this one first."""
        _ENTRY.pack_into(self._memory, self._at + _ENTRY_AT, entry_id)
        _MARK.pack_into(self._memory, self._at, _CALL)

    def returned(self) -> None:
        _MARK.pack_into(self._memory, self._at, _TURN)

    @contextmanager
    def instead(self, entry_id: int) -> Iterator[None]:
        """As if the handler were called with this message meanwhile."""
        (mark,), (before,) = (
            _MARK.unpack_from(self._memory, self._at),
            _ENTRY.unpack_from(self._memory, self._at + _ENTRY_AT),
        )
        self.call(entry_id)
        try:
            yield
        finally:
            _ENTRY.pack_into(self._memory, self._at + _ENTRY_AT, before)
            _MARK.pack_into(self._memory, self._at, mark)

    def end(self) -> None:
        with self._lock:
            self._has_ended = True
            _MARK.pack_into(self._memory, self._at, _IDLE)

    def claim(self, turn: int) -> bool:
        """Claim a running turn that took too long, to record that; return False if the turn is over, or was claimed before. From then on
        the slot has no messages in hand for its readers. Only the process that writes the slot claims.
        """
        with self._lock:
            is_idle = _MARK.unpack_from(self._memory, self._at)[0] == _IDLE
            if is_idle or self._turn != turn or self._claimed >= turn:
                return False
            self._claimed = turn
            _MARK.pack_into(self._memory, self._at, _IDLE)
            return True

    def goes_on(self, turn: int) -> bool:
        """Return whether a turn is at work, also a claimed one. Only the process that writes the slot asks."""
        with self._lock:
            return self._turn == turn and not self._has_ended

    def count(self, messages: int) -> None:
        if messages:
            _COUNT.pack_into(self._memory, self._at + _COUNT_AT, self.counted + messages)

    @property
    def counted(self) -> int:
        return int(_COUNT.unpack_from(self._memory, self._at + _COUNT_AT)[0])

    @property
    def has_begun(self) -> bool:
        return bool(_MARK.unpack_from(self._memory, self._at + _TURN_AT)[0])

    def read(self) -> Work | None:
        """Return the work in hand, if any. Another thread may write meanwhile: check later that the `turn` is the same."""
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


def file_without_name(title: str, size: int) -> int:
    """A new file of zeros, open; in memory if the system can, because writing to a disk waits."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create(title)
        os.truncate(file, size)
        return file
    with tempfile.TemporaryFile() as kept:
        kept.truncate(size)
        return os.dup(kept.fileno())


class Scoreboard:
    """The slots of a process. Make it with `make` and pass its file to the process that writes; or open it with `of`. There may be many
    slots: memory is only used for those that were taken, which are the first ones.
    """

    def __init__(self, file: int, slots: int) -> None:
        self.file = file
        self._memory = mmap.mmap(file, _FRONT_BYTES + slots * _SLOT_BYTES)
        self._slots: list[Slot] = []
        self._most = slots
        self._free: list[int] = []
        self._lock = threading.Lock()

    @classmethod
    def make(cls, slots: int) -> Self:
        return cls(file_without_name("seriatim-scoreboard", _FRONT_BYTES + slots * _SLOT_BYTES), slots)

    @classmethod
    def of(cls, file: int) -> Self:
        """Open a scoreboard that another process has made."""
        return cls(file, os.fstat(file).st_size // _SLOT_BYTES - 1)

    @property
    def slots(self) -> list[Slot]:
        """The slots that have been taken, by this process or the writing one."""
        (lowest,) = _NUMBER.unpack_from(self._memory, _TAKEN_AT)
        with self._lock:
            return self._known(min(lowest, self._most))

    def take(self) -> Slot | None:
        """Take a slot for a thread; None: there is none left. Only the process that writes takes slots."""
        with self._lock:
            if self._free:
                return self._slots[heapq.heappop(self._free)]
            (lowest,) = _NUMBER.unpack_from(self._memory, _TAKEN_AT)
            if lowest == self._most:
                return None
            slot = self._known(lowest + 1)[lowest]
            _NUMBER.pack_into(self._memory, _TAKEN_AT, lowest + 1)
            return slot

    def give_back(self, slot: Slot) -> None:
        with self._lock:
            heapq.heappush(self._free, self._slots.index(slot))

    def beat(self) -> None:
        """Report that the process isn't frozen."""
        _NUMBER.pack_into(self._memory, _PULSE_AT, time.monotonic_ns())

    @property
    def pulse(self) -> int:
        """A number that changes as long as the process isn't frozen; 0: it hasn't begun."""
        return int(_NUMBER.unpack_from(self._memory, _PULSE_AT)[0])

    def close(self) -> None:
        """Close its file, behind the start of the process that writes. Its content is gone with the last of both that reads it."""
        os.close(self.file)

    def _known(self, count: int) -> list[Slot]:
        while len(self._slots) < count:
            self._slots.append(Slot(self._memory, _FRONT_BYTES + len(self._slots) * _SLOT_BYTES))
        return self._slots[:count]
