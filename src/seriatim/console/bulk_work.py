"""Work on bulk operations beside the pages: one thread a process, while there is something to do."""

from __future__ import annotations

import threading

from seriatim.box.box import MessageBox
from seriatim.box.postgres.translate import is_forbidden
from seriatim.errors import SeriatimError, UsageError
from seriatim.operations.bulk_operations import work
from seriatim.pipeline.text.event_log import LOG

#: The longest time that the end waits for the portion in hand. Nothing is lost if that takes longer.
_END_S = 4.0
#: Seconds until a portion that failed is tried again.
_AGAIN_S = 5.0


class BulkWork:
    """Works on bulk operations that this process may work on, those of others too, where nobody does."""

    def __init__(self, box: MessageBox) -> None:
        self._box = box
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_due = False
        self._ends = threading.Event()
        #: The error that was logged last, unless a portion has succeeded since.
        self._told = ""

    def wake(self) -> None:
        """Begin, if there is something to do; returns at once."""
        with self._lock:
            self._is_due = True
            if self._thread is None and not self._ends.is_set():
                self._thread = threading.Thread(target=self._run, name="seriatim-bulk", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Do nothing more; waits for the portion in hand."""
        self._ends.set()
        thread = self._thread
        if thread is not None:
            thread.join(_END_S)

    def _run(self) -> None:
        while self._is_to_begin():
            try:
                while not self._ends.is_set() and work(self._box) is not None:
                    self._told = ""
                self._told = ""
            except UsageError:  # the box was closed, which doesn't pass; another process goes on
                self._ends.set()
            except Exception as error:  # noqa: BLE001 -- it may pass, as a database that is away does
                if str(error) != self._told:
                    LOG.warning("bulk_interrupted", error=error, exc_info=not isinstance(error, SeriatimError))
                self._told = str(error)
                if not is_forbidden(error):  # where the role may not, others do it
                    self._is_due = True
                    self._ends.wait(_AGAIN_S)

    def _is_to_begin(self) -> bool:
        with self._lock:
            if not self._is_due or self._ends.is_set():
                self._thread = None
                return False
            self._is_due = False
            return True
