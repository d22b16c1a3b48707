"""Jobs that pass two queues on their way to a gate: their publisher, what their handlers do with them, and what leaves the gate.

Each job goes two ways, `l` and `e`: to the gate of its location, and to that of its entity. Its number at its location says what
becomes of it, so that all processes and the test agree on that.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import seriatim as sq
from tests.faults.crew import ends_without_server, tells_when_unavailable
from tests.faults.failing_handlers import MENDED
from tests.soak import seed

LOCATIONS = ("north", "east", "south", "west")
WAYS = ("l", "e")
BATCH = 10
#: Of the batches of a publisher one in so many is lost with it.
A_LOSS = 200


def is_consumed(number, step):
    """1% of all jobs end on their way, half of them at each of the two steps."""
    return number % 100 == 7 and step == ("work", "price")[number // 100 % 2]


def has_several(number):
    """1% have several results."""
    return number % 100 == 33


def fails_at(number, way):
    """The step at which a job fails for good; None: it doesn't. 0.5% do."""
    if number % 200 != 50:
        return None
    return "price" if number // 200 % 2 == (way == "e") else "work"


def is_dead(number, way):
    """Whether the queue where a job fails makes it a dead letter by itself."""
    return way == "e" and fails_at(number, way) == "price"


def cure(location, number):
    """What the script does with a failed job: it mends it, skips it, or skips the hole at the gate before it mends it."""
    return ("mend", "skip", "skip the hole")[(number // 200 + LOCATIONS.index(location)) % 3]


def results(location, number, way):
    """The results of a job that leave the gate, or are late there."""
    if any(is_consumed(number, step) for step in ("work", "price")) or is_dead(number, way):
        return []
    if fails_at(number, way) is not None and cure(location, number) == "skip":
        return []
    return ["a1", "a2", "b", "w"] if has_several(number) else ["a"]


def handle(message, tx):
    """Of all queues: jobs become prices, prices results, and results are written down."""
    told = message.context
    if message.type.startswith("result"):
        tx.connection.execute(
            f"INSERT INTO public.{tx.access.schema}_left (gate, origin_group, origin_ordinal, ordinal, number, part)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            [
                f"out_{told['way']}",
                message.group,
                told["origin_ordinal"],
                message.ordinal,
                told["number"],
                told["piece"],
            ],
        )
        return None
    step = "work" if message.type == "job" else "price"
    way = told.get("way") or message.subscriptions[0][-1]
    number = told["number"]
    time.sleep(min(random.expovariate(500), 0.05) if random.random() < 0.99 else 0.2)
    if fails_at(number, way) == step and not message.body.endswith(MENDED):
        raise sq.Business("for good")
    if is_consumed(number, step):
        return None
    own = {"number": number, "way": way, "entity": told["entity"], "place": told.get("place") or told["location"]}

    def one(kind, part):
        return sq.Message(type=f"{kind}_{way}", body=message.body, context=own | {"piece": part})

    if step == "work":
        parts = [one("result", "w"), one("price", "a"), one("price", "b")]
        return parts if has_several(number) else one("price", "a")
    if has_several(number) and told["piece"] == "a":
        return [one("result", "a1"), one("result", "a2")]
    return one("result", told["piece"])


def batches(location, jobs, entities):
    """The jobs of a location, as they are published: (number, entity), in batches."""
    chance = random.Random(f"{seed()} {location}")
    numbers = iter(range(1, jobs + 1))
    while batch := [number for _, number in zip(range(chance.randint(1, BATCH)), numbers, strict=False)]:
        yield [(number, f"{location}-{chance.randrange(entities)}") for number in batch]


@ends_without_server
def main(dsn, schema, location, jobs, entities, lost):
    """Publish what hasn't been published yet, and note it in the same transaction; of a batch that is lost nothing is left."""
    lost = Path(lost)
    with sq.MessageBox.open(dsn, schema=schema, connections=1) as box:
        for at, batch in enumerate(batches(location, int(jobs), int(entities))):
            gone = {json.loads(line)["batch"] for line in lost.read_text().splitlines()} if lost.exists() else set()
            done = at in gone
            while not done:
                with tells_when_unavailable():
                    with box.session() as tx:
                        rows = [[f"{location}-{number}", location, number, entity] for number, entity in batch]
                        there = tx.connection.execute(
                            f"SELECT FROM public.{schema}_sent WHERE message_id = %s", [rows[0][0]]
                        ).fetchone()
                        if there is None:
                            tx.publish(
                                [
                                    sq.Message(
                                        type="job", message_id=name, body=name.encode(),
                                        context={"location": location, "number": number, "entity": entity},
                                    )
                                    for name, _, number, entity in rows
                                ]
                            )  # fmt: skip
                            tx.connection.cursor().executemany(
                                f"INSERT INTO public.{schema}_sent (message_id, location, number, entity) VALUES (%s, %s, %s, %s)",
                                rows,
                            )
                        if there is None and at % A_LOSS == 3:
                            with lost.open("a") as file:
                                file.write(json.dumps({"batch": at, "jobs": len(batch)}) + "\n")
                            os.kill(os.getpid(), signal.SIGKILL)
                    done = True  # and not before the commit
            time.sleep(0.001)


if __name__ == "__main__":
    main(*sys.argv[1:])
