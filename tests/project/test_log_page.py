"""Each line of the log has its row in the reference, with its logger, its levels and its fields; and no row is of a line that isn't there."""

from __future__ import annotations

import ast
import logging
import re
from collections import defaultdict
from pathlib import Path

import pytest

import seriatim

SOURCE = Path(seriatim.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "log.md"
LEVELS = ("debug", "info", "warning", "error", "exception", "critical", "log")


def lines_of(path):
    """The calls that log in a module: what they are called with, and the name of the module's logger."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    loggers = {
        target.id: ast.unparse(node.value.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "logging.getLogger"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in loggers
        ):
            yield (
                node,
                loggers[node.func.value.id]
                .strip("'")
                .replace(
                    "__name__", f"seriatim.{path.relative_to(SOURCE).with_suffix('').as_posix().replace('/', '.')}"
                ),
            )


def found():
    """By event: its loggers, its fields."""
    events = defaultdict(lambda: (set(), set()))
    for path in sorted(SOURCE.rglob("*.py")):
        for call, logger in lines_of(path):
            where = f"{path}:{call.lineno}"
            (extra,) = [one.value for one in call.keywords if one.arg == "extra"] or [None]
            assert isinstance(extra, ast.Call), f"{where}: the line has no fields"
            assert ast.unparse(extra.func) == "fields", where
            event = ast.literal_eval(extra.args[0])
            events[event][0].add(logger)
            events[event][1].update(one.arg for one in extra.keywords)
    return {event: (loggers, names) for event, (loggers, names) in events.items()}


def told():
    rows = re.findall(
        r"^\| `([a-z_]+)` \| `([a-z_.`, ]+)` \| (.*?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {
        event: (set(re.split("`, `", loggers)), set(re.findall(r"`([a-z_]+)`", names)))
        for event, loggers, names, _ in rows
    }


@pytest.mark.dear
def test_every_line_is_in_the_reference_with_its_logger_and_its_fields():
    assert len(found()) > 30
    assert told() == found()


def test_no_field_has_a_name_that_a_record_has():
    own = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "time", "level", "logger", "exception"}
    assert not own & {name for _, names in found().values() for name in names} | {"event"} & own
