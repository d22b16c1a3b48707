"""Work on messages in parallel, and let the results leave in the order in which the messages came at each location.

python -m examples.gatekeeper [DSN]
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

import seriatim as sq
from seriatim.operations import groups, messages

DEFINITIONS = (
    sq.MessageType("request", {"number": "long"}),
    sq.MessageType("priced", {"number": "long"}),
    sq.MessageType("offer", {"text": "string"}),
    sq.Queue("work", sq.Unordered(), group="location", gate=sq.Gate("out", through=["check"]), retry=sq.Retry(1)),
    sq.Queue("check", sq.Unordered()),
    sq.Queue("out", sq.Standard(hole_timeout="100s"), group="origin_group", sequence="origin_ordinal"),
    sq.Subscription("requests", where="type = 'request'", to="work"),
    sq.Subscription("priced", where="type = 'priced'", to="check"),
    sq.Subscription("offers", where="type = 'offer'", to="out"),
)
LOCATIONS = ("phone", "web")
#: The requests of a location: the third can't be priced, the fourth needs no answer, and the fifth gets two.
NUMBERS = range(1, 7)


class Desk:
    """The first request of a location lies there until the last one is priced, so that results come in another order."""

    def __init__(self) -> None:
        self._last = {location: threading.Event() for location in LOCATIONS}

    def price(self, message: sq.Received, _tx: sq.Session) -> sq.Message:
        """Price a request."""
        location, number = message.context["location"], message.context["number"]
        if number == NUMBERS[0]:
            self._last[location].wait(timeout=30)
        if number == NUMBERS[-1]:
            self._last[location].set()
        if number == 3 and message.body != b"mended":
            raise sq.Business("it has no price")
        return sq.Message(type="priced", context={"number": number})


def check(message: sq.Received, _tx: sq.Session) -> list[sq.Message]:
    """Make the offers for a priced request: one, none, or two."""
    number = message.context["number"]
    texts = {4: [], 5: ["5 (dear)", "5 (cheap)"]}.get(number, [str(number)])
    return [sq.Message(type="offer", context={"text": text}) for text in texts]


def main(box: sq.MessageBox) -> dict[str, list[list[str]]]:
    """Work on requests; of each location what leaves at first, and what leaves after an operator has mended one."""
    box.define(*DEFINITIONS)
    box.publish(
        [
            sq.Message(type="request", context={"location": location, "number": number})
            for number in NUMBERS
            for location in LOCATIONS
        ]
    )
    desk = Desk()
    work(box, desk)
    left = leaving(box)
    for location in LOCATIONS:
        (waits,) = groups.standing(box, "out", location).place.waits_for  # the message that the gate waits for
        messages.retry(box, [waits.message_id], queue="work", body=b"mended", actor="ann", reason="a price by phone")
    work(box, desk)
    then = leaving(box)
    return {location: [left[location], then[location]] for location in LOCATIONS}


def work(box: sq.MessageBox, desk: Desk) -> None:
    """Work until nothing is left to do, with several workers a queue."""
    for queue, handler in (("work", desk.price), ("check", check)):
        sq.Worker(box, queue, handler, workers=4).run(until_idle=True)


def leaving(box: sq.MessageBox) -> dict[str, list[str]]:
    """What leaves the gate, by location."""
    found: dict[str, list[str]] = {location: [] for location in LOCATIONS}
    with box.session() as tx:
        while delivery := tx.receive("out", limit=10):
            for message in delivery:
                found[message.context["origin_group"]].append(message.context["text"])
    return found


if __name__ == "__main__":
    with suppress(BrokenPipeError), sq.MessageBox.open(*sys.argv[1:]) as opened:
        for place, (first, mended) in main(opened).items():
            print(f"{place}: {', '.join(first)}; after the third was mended: {', '.join(mended)}")
