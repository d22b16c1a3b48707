"""A handler's error, read as a fault: which exceptions pass, and whose code raised them."""

from __future__ import annotations

import inspect
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import CodeType
from typing import Any

from seriatim.box.connection.misuse import Misuse
from seriatim.box.faults.faults import Fault
from seriatim.box.faults.postpone import postponement_us
from seriatim.box.workers.steps import is_transient, misuses_driver
from seriatim.errors import DeadLetter, Postpone, Transient, Unavailable, UsageError
from seriatim.kernel.operators.fault import ErrorClasses, FaultKind, kind_of
from seriatim.kernel.values.time import micros
from seriatim.runtime.workers.handlers import called

_NOTHING_SAID = ErrorClasses()
_LONGEST_US = 10_000 * 86_400 * 10**6
#: The network, the disk, the server.
_PASSING = (ConnectionError, TimeoutError, socket.gaierror, Unavailable)
#: Network failures of libraries that aren't imported for that. For psycopg's: `is_transient`.
_OF_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "httpx": ("TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError"),
    "httpcore": ("TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError"),
    "requests.exceptions": ("ConnectionError", "Timeout", "ChunkedEncodingError"),
    "urllib3.exceptions": ("TimeoutError", "ProtocolError", "NewConnectionError", "MaxRetryError"),
}


def fault_of(error: BaseException, worker: str, classes: ErrorClasses = _NOTHING_SAID, handler: object = None) -> Fault:
    if isinstance(error, Misuse) or (misuses_driver(error) and classes.said_of(error) is None):
        kind, retry_after = FaultKind.BUSINESS, None
    else:
        in_handler = handler is not None and _raised_by(error) in {called.__code__, *_codes(handler)}
        passes = isinstance(error, _PASSING) or is_transient(error) or isinstance(error, _of_libraries())
        kind, retry_after = kind_of(error, classes, passes=passes, in_handler=in_handler), None
    is_dead = isinstance(error, DeadLetter)
    if isinstance(error, Transient) and error.retry_after is not None:
        with suppress(UsageError):  # an invalid time doesn't count
            retry_after = min(max(0, micros(error.retry_after)), _LONGEST_US)
    trace = "".join(traceback.format_exception(error))
    text = "".join(traceback.format_exception_only(error)).strip()  # also of an error that can't be written as text
    with suppress(Exception):
        text = str(error)
    return Fault(kind, type(error).__qualname__, text, worker, trace, retry_after, is_dead=is_dead)


def delay_or_fault(error: BaseException) -> int | BaseException:
    """The delay that a handler has asked for, microseconds; otherwise its fault: an impossible delay is one, too."""
    if not isinstance(error, Postpone):
        return error
    try:
        return postponement_us(error.delay)
    except UsageError as wrong:
        return wrong.with_traceback(error.__traceback__)


def _of_libraries() -> tuple[type, ...]:
    classes = [
        getattr(module, name, None)
        for library, names in _OF_LIBRARIES.items()
        if (module := sys.modules.get(library)) is not None
        for name in names
    ]
    return tuple(library_class for library_class in classes if isinstance(library_class, type))


def _raised_by(error: BaseException) -> CodeType | None:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return None if frame is None else frame.tb_frame.f_code


def _codes(handler: Any) -> set[CodeType]:
    codes: set[CodeType] = set()
    while handler is not None:
        while isinstance(handler, partial):
            handler = handler.func
        if not inspect.isroutine(handler) and not isinstance(handler, type):
            handler = vars(type(handler)).get("__call__")  # an object that can be called
        code = getattr(handler, "__code__", None)
        if isinstance(code, CodeType):
            codes.add(code)
        handler = getattr(handler, "__wrapped__", None)
    return codes
