"""The second half of ``seriatim demo``: a message box, a handler that fails, and an operator who mends it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

import seriatim as sq
from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import FOLDER
from seriatim.box.server.embedded import serving
from seriatim.cli.shown.table import lines_of
from seriatim.errors import Business, InvariantBroken
from seriatim.operations import groups
from seriatim.operations.tables.groups import GROUP
from seriatim.pipeline.types.message import Message
from seriatim.runtime.workers.worker import Worker

QUEUE = "shipping"
#: The customer with an order that no handler can take as it is.
BAD_GROUP = "customer-3"
#: The customer who stands still while the console shows the box.
STILL_GROUP = "customer-1"

_CUSTOMERS = 4
_ORDERS = 5
_BAD_NUMBER = 3
_LOG = "seriatim.failures"
_SHOWN = ("group", "state", "queued", "reason")


@dataclass(frozen=True, slots=True)
class BoxStory:
    """The outcome.

    Args:
        published: the messages that were published.
        handled: the rows that the handler's transactions wrote.
        stopped: the group at which the handler failed.
        error: the handler's failure.
    """

    published: int
    handled: int
    stopped: str
    error: str


def box_story(folder: Path, console: Console, then: Callable[[MessageBox], None] | None = None) -> BoxStory:
    console.print("\n[bold]The message box[/], in a PostgreSQL of its own: starting it")
    with _opened(folder) as box:
        published = _publish(box)
        console.print(
            f"An application publishes {published} orders of {_CUSTOMERS} customers, scrambled. A worker handles each customer's "
            "in order; what the handler writes commits together with the end of its message. "
            f"Order {_BAD_NUMBER} of {BAD_GROUP} has the amount 'ten', at which the handler fails.\n"
        )
        with _logged() as log:
            _work(box)
        before = _shipped(box)
        _tell_shipped(console, before)
        console.print("\nThe log says why (and gives the traceback):\n")
        for line in log:
            console.print(f"  {line}", markup=False, soft_wrap=True)
        error = _tell_stopped(console, box)
        console.print(
            f"\nThe operator mends the body ([bold]group retry {BAD_GROUP} --edit FILE[/]), and the worker goes on:\n"
        )
        _mend(box)
        _work(box)
        after = _shipped(box)
        _tell_shipped(console, {BAD_GROUP: after[BAD_GROUP]})
        _check(before, after)
        handled = sum(map(len, after.values()))
        console.print(f"\n{handled} orders, each once, every customer's in order: 1 to {_ORDERS}.")
        if then is not None:
            then(box)
        return BoxStory(published, handled, BAD_GROUP, error)


@contextmanager
def _opened(folder: Path) -> Iterator[MessageBox]:
    """The box in the embedded PostgreSQL of a folder, whatever DSN the environment names."""
    place = folder / FOLDER
    place.parent.mkdir(parents=True, exist_ok=True)
    with serving(place) as server, MessageBox.open(server.dsn) as box:
        yield box


@contextmanager
def still_working(box: MessageBox) -> Iterator[None]:
    """Let the worker go on in the block; there is an order again at which its handler fails, and two behind it."""
    worker = Worker(box, QUEUE, _handle, workers=2)
    thread = threading.Thread(target=worker.run, name="seriatim-demo", daemon=True)
    with _logged():
        thread.start()
        try:
            for number, amount in ((_ORDERS + 1, "eleven"), (_ORDERS + 2, "70"), (_ORDERS + 3, "80")):
                box.publish(_order(STILL_GROUP, number, amount))
            yield
        finally:
            worker.stop()
            thread.join()


def _publish(box: MessageBox) -> int:
    box.define(
        sq.MessageType("order", properties={"customer": "string", "number": "long"}),
        sq.Queue(QUEUE, policy=sq.Standard(), group="customer", sequence="number"),
        sq.Subscription("orders", where="type = 'order'", to=QUEUE),
    )
    with box.session() as tx:
        tx.connection.execute(
            "CREATE TABLE public.shipped (place bigserial, customer text, number bigint, amount numeric)"
        )
    orders = [(f"customer-{n % _CUSTOMERS + 1}", n // _CUSTOMERS + 1) for n in range(_CUSTOMERS * _ORDERS)]
    for customer, number in sorted(orders, key=lambda order: (order[1] * 3 % _ORDERS, order[0])):  # 2, 4, 1, 3, 5
        amount = "ten" if (customer, number) == (BAD_GROUP, _BAD_NUMBER) else str(10 * number)
        box.publish(_order(customer, number, amount))
    return len(orders)


def _order(customer: str, number: int, amount: str) -> Message:
    return Message(type="order", body=_body(amount), context={"customer": customer, "number": number})


def _body(amount: str) -> bytes:
    return json.dumps({"amount": amount}).encode()


def _handle(message: Any, tx: Any) -> None:
    amount = json.loads(message.body)["amount"]
    if not amount.isdecimal():
        raise Business(f"{amount!r} is no amount")
    row = [message.context["customer"], message.context["number"], amount]
    tx.connection.execute("INSERT INTO public.shipped (customer, number, amount) VALUES (%s, %s, %s)", row)


def _work(box: MessageBox) -> None:
    """Let a worker work until there is nothing that it could do."""
    Worker(box, QUEUE, _handle, workers=2).run(until_idle=True)


@contextmanager
def _logged() -> Iterator[list[str]]:
    """What the log of failures says in the block, a line each; it goes nowhere else."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage().splitlines()[0])

    log, handler = logging.getLogger(_LOG), Lines()
    passed_on, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.propagate = passed_on


def _shipped(box: MessageBox) -> dict[str, list[int]]:
    """By customer the numbers of the rows that the handler wrote, in the order in which it did."""
    with box.session() as tx:
        rows = tx.connection.execute("SELECT customer, number FROM public.shipped ORDER BY place").fetchall()
    found: dict[str, list[int]] = {}
    for customer, number in sorted(rows, key=lambda row: str(row[0])):
        found.setdefault(customer, []).append(number)
    return found


def _tell_shipped(console: Console, shipped: dict[str, list[int]]) -> None:
    for customer, numbers in shipped.items():
        console.print(f"  {customer}  shipped  [green]{' '.join(map(str, numbers))}[/]")


def _tell_stopped(console: Console, box: MessageBox) -> str:
    stopped = groups.groups(box, QUEUE, state="faulted")
    console.print("\nOnly that customer stands still ([bold]seriatim groups[/] and [bold]group show[/] say so):\n")
    for line in lines_of(GROUP.only(*_SHOWN), stopped):
        console.print(f"  {line}", markup=False, soft_wrap=True)
    return stopped[0].reason or ""


def _mend(box: MessageBox) -> None:
    groups.retry(box, QUEUE, BAD_GROUP, body=_body("10"), actor="demo", reason="ten is 10")


def _check(before: dict[str, list[int]], after: dict[str, list[int]]) -> None:
    whole = list(range(1, _ORDERS + 1))
    customers = [f"customer-{n + 1}" for n in range(_CUSTOMERS)]
    stopped = {one: whole[: _BAD_NUMBER - 1] if one == BAD_GROUP else whole for one in customers}
    if before != stopped or after != dict.fromkeys(customers, whole):
        raise InvariantBroken(f"shipped were {before}, and then {after}")
