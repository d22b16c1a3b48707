"""The transmitter: it exchanges messages over all links of a box, again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from seriatim.box.box import MessageBox
from seriatim.box.links.transmission import Roads, await_work, transmit
from seriatim.errors import BoxDisabled, EnvironmentProblem, SeriatimError, Unavailable
from seriatim.pipeline.text.told_once import ToldOnce
from seriatim.runtime.stop_signal import Stop

#: The interval at which other boxes are asked while nothing waits here, seconds.
_ASK_S = 1.0
#: The pause after a failure, and without a link; a role that isn't the owner looks again later, seconds.
_REST_S, _REFUSED_S = 1.0, 60.0
_END_S = 10.0


class Transmitter:
    """Sends what waits in remote queues, fetches what waits for this box elsewhere, and carries acknowledgements both ways.

    Several transmitters of a box may work beside each other; they share the streams. ``seriatim serve`` has one, too.

    Args:
        box: the message box; its role has to be the owner.
    """

    def __init__(self, box: MessageBox) -> None:
        self._access = box.access
        self._stop = Stop()
        self._told = ToldOnce("not_transmitted")

    def run(self) -> None:
        """Transmit until `stop` is called, or SIGTERM or SIGINT comes.

        Raises:
            BoxDisabled: the box isn't on the server that it remembers.
            EnvironmentProblem: the role isn't the owner of the box.
        """
        self._access.check_enabled()
        with self._stop.listening():
            self.transmit_until(lambda: self._stop.requested, refused=None)

    def stop(self) -> None:
        """End `run` after the present exchange; from any thread."""
        if not self._stop.requested:
            self._stop.request()

    def transmit_until(self, ends: Callable[[], bool], *, refused: Callable[[float], object] | None) -> None:
        """Exchange messages until the caller ends them.

        Args:
            ends: says so.
            refused: waits for so many seconds where this role may not transmit, or the box is disabled; None: that is raised.
        """
        roads, first, was_idle = Roads(), True, False
        try:
            while not ends():
                try:
                    exchanges = transmit(self._access, roads, at_once=first)
                    first = False
                    is_idle = not any(one.sent or one.received for one in exchanges)
                    if not any(one.more for one in exchanges):
                        await_work(self._access, _ASK_S, ends, looks=not (is_idle and was_idle))
                    was_idle = is_idle
                    self._told.forget()
                except Unavailable as error:
                    self._told.tell(error)
                    self._rest(ends, _REST_S)
                except (EnvironmentProblem, BoxDisabled) as error:
                    if refused is None:
                        raise
                    self._told.tell(error, logging.INFO)
                    refused(_REFUSED_S)
        finally:
            roads.close()

    def _rest(self, ends: Callable[[], bool], seconds: float) -> None:
        done = threading.Event()
        for _ in range(10):
            if ends() or done.wait(seconds / 10):
                return


class TransmitterThread:
    def __init__(self, box: MessageBox) -> None:
        self._transmitter = Transmitter(box)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="seriatim-links", daemon=True)
            self._thread.start()

    def end(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_END_S)

    def _run(self) -> None:
        with suppress(SeriatimError):
            self._transmitter.transmit_until(self._ended.is_set, refused=self._ended.wait)
