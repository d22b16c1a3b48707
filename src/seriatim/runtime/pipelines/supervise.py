"""Start a pipeline's driver again when it has died: `seriatim run --supervise`.

The driver is a separate process. Its checkpoint makes that safe: unfinished work is repeated, and delivered once. A driver whose supervisor
has died ends, too, after its batch: it watches a pipe that only the supervisor keeps open.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from seriatim.pipeline.text.event_log import LOG
from seriatim.runtime.stop_signal import Stop

if TYPE_CHECKING:
    from seriatim.runtime.pipelines.checkpoint import Checkpoint

#: The variable with the number of the pipe's end in the driver.
_PIPE = "SERIATIM_SUPERVISED"
#: The exit codes after which a new attempt may succeed: the driver failed, or PostgreSQL was away.
_TRANSIENT = frozenset({3, 5})
#: The pause before a driver is started again: at first, and at most; after a life of the third time the first pause applies again.
_SHORT_NAP_S, _LONG_NAP_S, _SETTLED_S = 1.0, 60.0, 60.0
_LOOK_S = 0.1


def supervise(name: str, checkpoint: Checkpoint, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a driver, and start it again when it was killed, or has failed for a reason that may pass. SIGTERM and SIGINT are passed on to
    it, and end it. A driver that fails before it has begun a batch, at the first start, isn't started again: its starter still
    reads the reason.
    """
    stop, failures, before = Stop(), 0, checkpoint.last_begun()
    has_begun = checkpoint.in_flight()
    with stop.listening():
        while not stop.requested:
            began = time.monotonic()
            code = _driven(command, environment, stop)
            is_killed = code < 0
            has_begun = has_begun or is_killed or checkpoint.last_begun() > before
            if stop.requested or not (is_killed or (code in _TRANSIENT and has_begun)):
                return 128 - code if is_killed else code
            failures = 1 if time.monotonic() - began > _SETTLED_S else failures + 1
            nap_s = min(_SHORT_NAP_S * 2 ** (failures - 1), _LONG_NAP_S)
            how = f"was killed by signal {-code}" if is_killed else f"ended with code {code}"
            LOG.error("driver_replaced", pipeline=name, code=code, seconds=nap_s, _how=how)
            stop.wait(nap_s)
    return 0


def _driven(command: Sequence[str], environment: Mapping[str, str], stop: Stop) -> int:
    """Run a driver until it ends; its exit code, negative: a signal."""
    ours, child = os.pipe()
    try:
        # In a separate session: the terminal's signals reach it once, from here.
        process = subprocess.Popen(
            command, env={**environment, _PIPE: str(ours)}, pass_fds=[ours], start_new_session=True
        )
        reported = 0
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_LOOK_S)
            wanted = 2 if stop.insisted else int(stop.requested)
            while reported < wanted:
                process.send_signal(signal.SIGTERM)
                reported += 1
    finally:
        os.close(child)
        os.close(ours)


def follow_supervisor() -> None:
    """Stop this process, as SIGTERM does, when its supervisor has ended; without a supervisor do nothing."""
    if (pipe := os.environ.pop(_PIPE, None)) is not None:
        threading.Thread(target=_follow, args=[int(pipe)], daemon=True).start()


def _follow(pipe: int) -> None:
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
