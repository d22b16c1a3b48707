"""Receiving: ports through which messages come in, each in a thread of its own; alone, or beside what `serve` does."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from seriatim.box.measures import Snapshot
from seriatim.errors import SeriatimError
from seriatim.pipeline.text.event_log import LOG
from seriatim.runtime.ports.receive_port import ReceivePort
from seriatim.runtime.stop_signal import Stop
from seriatim.runtime.workers.scoreboard import Work

_LOOK_S, _END_S = 0.5, 30.0


class Receiving:
    """Ports that take messages in until they are stopped."""

    def __init__(self, ports: Sequence[ReceivePort]) -> None:
        self.ports = tuple(ports)
        self._errors: dict[str, BaseException] = {}
        self._threads = [
            threading.Thread(target=self._run, args=[one], name=f"seriatim {one.name}", daemon=True) for one in ports
        ]
        self._stop = Stop()

    def run(self) -> None:
        """Take messages in until `stop` is called, or SIGTERM or SIGINT comes. Raises `SeriatimError`: a port can't go on, such as for a
        missing right.
        """
        with self._stop.listening():
            self.begin()
            try:
                while not self._stop.requested and not self._errors:
                    self._stop.wait(_LOOK_S)
            finally:
                self.end()
        for error in self._errors.values():
            raise error

    def stop(self) -> None:
        """End `run`. Thread-safe."""
        self._stop.request()

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """End all ports; what is in hand is committed and acknowledged."""
        for port in self.ports:
            port.stop()
        deadline = time.monotonic() + _END_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def looked(self) -> float:
        """The last round of the port whose last round is longest ago, on the monotonic clock."""
        return min(port.looked for port in self.ports)

    @property
    def works(self) -> list[Work]:
        return []

    def measures(self) -> Snapshot:
        return Snapshot()

    def late(self) -> list[str]:
        """Return the ports that stand still, in words. Thread-safe."""
        ended = [f"port {name!r} has ended: {error}" for name, error in self._errors.items()]
        return ended + [text for port in self.ports if port.name not in self._errors for text in port.late()]

    def _run(self, port: ReceivePort) -> None:
        try:
            port.run()
        except BaseException as error:  # noqa: BLE001 -- it is the port's end, and told
            self._errors[port.name] = error
            LOG.error("port_ended", exc_info=not isinstance(error, SeriatimError), port=port.name, error=error)
