"""The log of a process, as text and as JSON lines."""

from __future__ import annotations

import io
import json
import logging

import pytest

import seriatim as sq
from seriatim.pipeline.text import event_log
from seriatim.runtime.processes.log import JsonLines, _is_new, log_to_stderr


@pytest.fixture
def logged():
    """Logs a line, and returns it as it is written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.Logger("seriatim.test")  # noqa: LOG001 -- nobody else shall get its lines
    logger.addHandler(handler)

    def log(*words, **more):
        if words:
            logger.warning(*words, **more)
        return stream.getvalue()

    log.logger = logger
    return log


@pytest.fixture
def event(logged, monkeypatch):
    """Logs an event with this text, and returns its line."""

    def tell(text, **about):
        monkeypatch.setitem(event_log._TOLD, "odd", (logged.logger, text))
        event_log.LOG.warning("odd", **about)
        return logged()

    return tell


def test_a_line_is_one_object_with_its_fields(event):
    text = event(
        "queue %(queue)r: %(_why)s\nline of %(group)s", queue="a\u2028b", group=None, attempt=2, _why="no", error=ValueError("100 %s")
    )  # fmt: skip
    assert text.count("\n") == 1
    found = json.loads(text)
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "warning", "logger": "seriatim.test", "message": "queue 'a\\u2028b': no\nline of None",
        "event": "odd", "queue": "a\u2028b", "attempt": 2, "error": "100 %s",
    }  # fmt: skip


def test_what_json_does_not_know_is_written_as_text(logged):
    assert json.loads(logged("half \ud800", extra={"what": object}))["what"] == "<class 'object'>"


def test_a_traceback_is_a_field(logged):
    try:
        raise ValueError("no\x1b[31m")  # noqa: TRY301
    except ValueError:
        text = logged("it failed", exc_info=True)
    assert "\x1b" not in text
    assert "ValueError: no" in json.loads(text)["exception"]


def test_another_format_is_refused():
    with pytest.raises(sq.UsageError, match="the log can't have the form 'xml'"):
        log_to_stderr("info", "xml")


def test_a_line_of_a_library_has_an_event_too(logged):
    assert json.loads(logged("odd"))["event"] == "other"


def test_a_line_is_told_where_it_was_written_and_keeps_its_text_apart(caplog):
    event_log.LOG.exception("turn_failed", worker="w1", queue="orders")
    (record,) = caplog.records
    assert record.funcName == "test_a_line_is_told_where_it_was_written_and_keeps_its_text_apart"
    assert (record.msg, record.getMessage()) == ("%(worker)s: a turn failed", "w1: a turn failed")


@pytest.mark.parametrize("name", ["root", "py4j.clientserver"])
def test_what_py4j_logs_and_raises_is_left_out(name):
    theirs = logging.LogRecord(name, logging.ERROR, "/site-packages/py4j/clientserver.py", 1, "it ended", (), None)
    ours = logging.LogRecord("root", logging.ERROR, "/home/ann/orders.py", 1, "it ended", (), None)
    assert (_is_new(theirs), _is_new(ours)) == (False, True)
