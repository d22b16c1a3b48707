"""Wait until a remote queue has something to send: publishers notify a transmitter as they notify receivers."""

from __future__ import annotations

import time
from collections.abc import Callable

from psycopg import sql

from seriatim.box.connection.access import Access
from seriatim.box.connection.round_trip import OwnConnection

_NOTICE_END_S = 0.1


def await_work(access: Access, most_s: float, ends: Callable[[], bool], *, looks: bool) -> None:
    """Wait until something may be sent, for at most `most_s` seconds, or until the wait is ended. `looks`: whether to look for what came
    since the last exchange; not where an exchange has found that, and could do nothing with it. Behind a connection pooler nobody is
    notified; then it waits for the whole time.
    """
    until = time.monotonic() + most_s
    with access.transaction() as transaction:
        connection = transaction.connection
        if isinstance(connection, OwnConnection) and connection.is_pooled:
            while not ends() and (left_s := until - time.monotonic()) > 0:
                time.sleep(min(left_s, _NOTICE_END_S))
            return
        channel = sql.Identifier(f"seriatim_{connection.info.backend_pid}")
        connection.execute(sql.SQL("LISTEN {}").format(channel))
        transaction.do("register_transmitter")
        transaction.commit()
        # A message from before the registration notifies nobody.
        due_s = transaction.value("link_due") if looks else None
        transaction.commit()
        until = min(until, time.monotonic() + (most_s if due_s is None else max(due_s, 0.0)))
        while not ends() and (left_s := until - time.monotonic()) > 0:
            if any(True for _ in connection.notifies(timeout=min(left_s, _NOTICE_END_S), stop_after=1)):
                break
        connection.execute(sql.SQL("UNLISTEN {}").format(channel))
        transaction.do("unregister_transmitter")
