"""Whether a box, or a process that tells its health at an address, is well: a short answer for machines; `doctor` has the long one."""

from __future__ import annotations

import json
from http.client import HTTPException, InvalidURL
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from seriatim.box.views.at_work import ready_work
from seriatim.errors import SeriatimError, UsageError, shown
from seriatim.operations.doctor import Finding, State
from seriatim.operations.looking import open_to_look
from seriatim.pipeline.text.counted import counted

_LIMIT_S = 5.0
_MOST_BYTES = 100_000


def box_health(dsn: str | None = None, schema: str = "seriatim", *, patience_s: float = 60.0) -> list[Finding]:
    """Check a box: it answers, this version of seriatim can work with it, it is enabled, and somebody works on what is ready.

    It takes a few seconds at most, and changes nothing.

    Args:
        dsn: the PostgreSQL, as for `MessageBox.open`.
        schema: the schema of the box.
        patience_s: seconds for which messages may be ready though nobody is at work.
    """
    try:
        with open_to_look(dsn, schema=schema, statement_s=_LIMIT_S, reads_only=True) as box:
            with box.access.transaction() as transaction:
                transaction.check_enabled()
            found = [Finding("box", State.OK, f"{box.access.place} answers, and is enabled")]
            ready = box.access.within(ready_work)
    except UsageError:
        raise
    except SeriatimError as error:
        return [Finding("box", State.WRONG, str(error), error.remedy)]
    alone = [one for one in ready.values() if one.is_left_alone(patience_s)]
    if not alone:
        return [
            *found,
            Finding("work", State.OK, f"{counted(len(ready), 'queue has', 'queues have')} work; none is left alone"),
        ]
    told = "; ".join(f"queue {one.queue!r}: ready for {one.ready_s:,.0f} s, and nobody is at work" for one in alone)
    return [*found, Finding("work", State.WRONG, told, alone[0].helps)]


def process_health(address: str) -> list[Finding]:
    """Ask a process that was started with ``--metrics`` whether it is ready.

    Args:
        address: that address, such as ``127.0.0.1:9464`` or ``http://127.0.0.1:9464``.

    Raises:
        UsageError: it is none.
    """
    url = address if address.startswith(("http://", "https://")) else f"http://{address}"
    where = f"{url.rstrip('/')}/readyz"
    opener = build_opener(ProxyHandler({}))  # the address is what is asked, not a proxy
    try:
        with opener.open(where, timeout=2 * _LIMIT_S) as answer:  # it waits for its box for so long
            return _told(where, answer.read(_MOST_BYTES))
    except HTTPError as error:
        if error.code == 503:
            return _told(where, error.read(_MOST_BYTES))
        return [Finding("process", State.WRONG, f"{where} answers with {error.code}", "give the address of --metrics")]
    except (URLError, TimeoutError, OSError) as error:
        why = getattr(error, "reason", None) or error
        return [Finding("process", State.WRONG, f"{where} doesn't answer: {why}", "is it running, with --metrics?")]
    except (ValueError, InvalidURL):
        raise UsageError(f"{shown(address)} is no address", remedy="HOST:PORT, such as 127.0.0.1:9464") from None
    except HTTPException:  # the answer isn't HTTP, or ends too early
        return _told(where, b"")


def _told(where: str, content: bytes) -> list[Finding]:
    try:
        said: Any = json.loads(content)
        status, reasons = str(said["status"]), [str(one) for one in said["reasons"]]
    except (ValueError, KeyError, TypeError):
        return [
            Finding("process", State.WRONG, f"{where} is no process of seriatim's", "give the address of --metrics")
        ]
    if status == "ready":
        return [Finding("process", State.OK, "ready")]
    return [Finding("process", State.WRONG, one) for one in reasons or ["not ready"]]
