"""Each line of the log has its row in the reference, with its logger, its levels and its fields; and no row is of a line that isn't there."""

from __future__ import annotations

import ast
import logging
import re
from collections import defaultdict
from pathlib import Path

import pytest

import seriatim
from seriatim.pipeline.text import told_once
from seriatim.pipeline.text.event_log import EVENTS

SOURCE = Path(seriatim.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "log.md"
LOGGERS = {event: logger for logger, texts in EVENTS.items() for event in texts}
TEXTS = {event: text for texts in EVENTS.values() for event, text in texts.items()}
LEVELS = ("debug", "info", "warning", "error", "exception", "log")


def lines(path):
    """The calls that write lines of the log, or that say which line a `ToldOnce` writes: the event, its names, the place."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call):
            continue
        names = {one.arg for one in call.keywords}
        if ast.unparse(call.func) == "ToldOnce":
            yield call.args[0], names | {"error"}, call.lineno
        elif (
            isinstance(call.func, ast.Attribute) and call.func.attr in LEVELS and ast.unparse(call.func.value) == "LOG"
        ):
            yield call.args[-1], names - {"exc_info"}, call.lineno


def found():
    """By event: its logger, its fields."""
    events = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        if path == Path(told_once.__file__):
            continue
        for said, names, line in lines(path):
            event = ast.literal_eval(said)
            assert set(re.findall(r"%\((\w+)\)", TEXTS[event])) <= names, f"{path}:{line}: the text has other names"
            events[event].update(name for name in names if not name.startswith("_"))
    return {event: (LOGGERS[event], names) for event, names in events.items()}


def told():
    rows = re.findall(
        r"^\| `([a-z_]+)` \| `([a-z_.]+)` \| (.*?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {event: (logger, set(re.findall(r"`([a-z_]+)`", names))) for event, logger, names, _ in rows}


@pytest.mark.dear
def test_every_line_is_in_the_reference_with_its_logger_and_its_fields():
    assert len(found()) > 30
    assert told() == found()
    assert found().keys() == TEXTS.keys()


def test_no_field_has_a_name_that_a_record_has():
    own = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "time", "level", "logger", "exception"}
    assert not own & {name for _, names in found().values() for name in names} | {"event"} & own
