"""The numbers that a worker obeys at present, by the settings of its queue."""

from __future__ import annotations

from collections.abc import Sequence

from seriatim.box.definitions.queue_settings import QueueSettings
from seriatim.box.workers.heartbeat import Report, WorkerOrders
from seriatim.pipeline.text.event_log import LOG
from seriatim.runtime.workers.obeyed import Obeyed, obeyed
from seriatim.runtime.workers.rate_limit import RateLimit
from seriatim.runtime.workers.scoreboard import Work


class Tuning:
    """The numbers of one worker. The heartbeat's thread changes them, and others read them."""

    def __init__(self, queue: str, mode: str, own: Obeyed, *, is_reader: bool) -> None:
        self.queue = queue
        self._mode = mode
        self._own = own
        self._is_reader = is_reader
        self._told = QueueSettings()
        self.now = own
        self.rate_limit = RateLimit(own.rate, own.run_length)

    def obey(self, answer: WorkerOrders) -> bool:
        before, self.now = self.now, obeyed(self._own, answer, is_reader=self._is_reader)
        if self.now == before:
            return False
        if (self.now.rate, self.now.run_length) != (before.rate, before.run_length):
            self.rate_limit.change(self.now.rate, self.now.run_length)
        if answer.settings != self._told:
            self._told = answer.settings
            LOG.info("settings_obeyed", queue=self.queue, _settings=answer.settings)
        return True

    def report(self, threads: int, works: Sequence[Work]) -> Report:
        now = self.now
        in_hand = [(work.group, work.entry_id, work.since) for work in works]
        return Report(self.queue, self._mode, now.capacity, threads, now.run_length, now.rate, in_hand)
