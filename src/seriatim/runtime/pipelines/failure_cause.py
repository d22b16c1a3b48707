"""The cause of a query's failure, in a line or two: the worker's exception from a trace of the JVM."""

from __future__ import annotations

import re

from seriatim import errors
from seriatim.errors import QueryFailed, SeriatimError

_TRACEBACK = "Traceback (most recent call last):"
# "module.Class: text" where a Python traceback ends; frames are indented.
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w+)(?:: (.*))?$")
_CAUSED = re.compile(r"^(?:: |Caused by: |.*terminated with exception: )(.*)$", re.MULTILINE)
_PREFIXED = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.)+\w+(?:Exception|Error): ")
_WORDLESS = re.compile(r"[\w.$]+$")  # the name of a class, and nothing else
#: Spark's text with the name of an unreadable file, and for some failures with the cause.
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] (.*?reading file (\S+)\..*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_GOES_ON = "the next run goes on where this one stopped"
_MOST = 500


def cause_of(error: BaseException) -> SeriatimError:
    """Return the error to show for a failed query: seriatim's own error, or the cause in a line."""
    if isinstance(error, SeriatimError):
        return error
    text = str(error).strip() or type(error).__name__
    raised = _raised_in_python(text)
    if raised is None or raised[0].startswith("Py4J"):  # the driver's Python has passed on the JVM's text
        return _unreadable(text) or _failed(_raised_in_java(text))
    kind, message = raised
    ours = getattr(errors, kind, None)
    if isinstance(ours, type) and issubclass(ours, SeriatimError):
        return ours(message)
    return _failed(f"{kind}: {message}" if message else kind)


def _failed(problem: str, remedy: str = "--verbose prints the whole error") -> QueryFailed:
    shown = problem if len(problem) <= _MOST else f"{problem[:_MOST]}…"
    return QueryFailed(f"the query failed: {shown}", remedy=f"{remedy}; {_GOES_ON}")


def _unreadable(text: str) -> QueryFailed | None:
    """Return an error with the name of an unreadable file, where the innermost cause lacks it."""
    match = _UNREADABLE.search(text)
    if match is None:
        return None
    kind, message, file = match.groups()
    if kind == "PARQUET_COLUMN_DATA_TYPE_MISMATCH":
        return _failed(message, "write the file with that type: a location has one schema")
    cause = _raised_in_java(text)
    return None if file.rpartition("/")[2] in cause else _failed(f"{file}: {cause}")


def _raised_in_python(text: str) -> tuple[str, str] | None:
    """The exception with which the innermost Python traceback ends."""
    if _TRACEBACK not in text:
        return None
    for line in text.rsplit(_TRACEBACK, 1)[1].splitlines():
        if line.strip() and not line.startswith((" ", "\t")):
            match = _RAISED.match(line.strip())
            return (match[1], (match[2] or "").strip()) if match else None
    return None


def _raised_in_java(text: str) -> str:
    """The innermost cause with a message in a JVM's trace, else its first line."""
    causes = [cause for cause in _CAUSED.findall(text) if cause.strip() and not _WORDLESS.match(cause)]
    first = next(line.strip() for line in text.splitlines() if line.strip())
    return _PREFIXED.sub("", causes[-1] if causes else first)
