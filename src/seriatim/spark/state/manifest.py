"""The manifest of a checkpoint: the operator that its state belongs to.

Spark silently starts a renamed state variable empty. So the properties that make a state unreadable for another
declaration are written beside it, and compared before the first batch. Each bucket's state has the same fingerprint,
for queries that are started without a manifest.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from seriatim.errors import CheckpointMismatch
from seriatim.kernel.groups.policy import BestEffort, BestEffortNumbers, StandardNumbers, UnitOfWork
from seriatim.pipeline.declared.queue import Queue

#: The buckets of a checkpoint that are cut by the keys of groups alone.
BY_KEY = "by key"


def identity(
    queues: Sequence[Queue], buckets: int, clock: str, *, by_key: bool = False, merged: bool = False
) -> dict[str, Any]:
    """The properties that must not change during the life of a checkpoint: the kinds of policies, but not their parameters. `by_key`: a
    group's bucket goes by its key alone; else by its queue, too. `merged`: two regions send the messages, and the state has what each has
    shown.
    """
    return {
        "buckets": buckets,
        **({"spread": BY_KEY} if by_key else {}),
        "clock": clock,
        **({"regions": 2} if merged else {}),
        "queues": {queue.name: _identity_of(queue) for queue in queues},
    }


def _identity_of(queue: Queue) -> dict[str, Any]:
    # A group that isn't opened holds messages that only a message can free.
    stays = [name for name in ("opens", "closes") if getattr(queue.group, name) is not None]
    found: dict[str, Any] = {
        "policy": queue.policy.name,
        "group": queue.group.by,
        **({"by messages": stays} if stays else {}),
    }
    # A state of numbers as producers have them has more columns, and its numbers are unwrapped.
    match queue.policy_of(None):
        case StandardNumbers(start=start, modulus=modulus, spans=spans, epochs=epochs):
            found["numbers"] = {
                "start": start if isinstance(start, str) else "",
                "modulus": modulus,
                "spans": spans,
                "epochs": epochs,
            }
        case BestEffortNumbers(modulus=modulus):
            found["numbers"] = {"modulus": modulus}
        case BestEffort(by="position"):
            found["numbers"] = {"by": "position"}
        case UnitOfWork(start=start, once=once) if start == 0 or not once:
            found["numbers"] = {**({} if start else {"start": 0}), **({} if once else {"once": False})}
    return found


def fingerprint(
    queues: Sequence[Queue], buckets: int, clock: str, *, by_key: bool = False, merged: bool = False
) -> str:
    """The identity as one short text that people can compare."""
    return json.dumps(identity(queues, buckets, clock, by_key=by_key, merged=merged), sort_keys=True)


def check_header(header: Mapping[str, Any], layout: int, fingerprint: str | None) -> None:
    """Compare the header of a state with the operator that reads it; `fingerprint` None: only the layout."""
    if header["layout"] != layout:
        raise CheckpointMismatch(
            f"the state has layout {header['layout']}, this version of seriatim reads {layout}",
            remedy="run the version that wrote it, or start with a new checkpoint",
        )
    if fingerprint is not None and header["fingerprint"] != fingerprint:
        raise _other(header["fingerprint"], fingerprint)


def check_queues(written: str, wanted: str, present: Collection[str]) -> None:
    """Compare the fingerprint of a state with the operator's, where queues may be added and removed."""
    if written == wanted:
        return
    found, own = json.loads(written), json.loads(wanted)
    for key in ("buckets", "clock", "spread", "regions"):
        if found.get(key) != own.get(key):
            raise _other(f"{key} {found.get(key)}", f"{key} {own.get(key)}")
    for name in sorted(present):
        before, after = found["queues"].get(name), own["queues"].get(name)
        if before != after:
            raise _other(f"queue {name!r} {json.dumps(before)}", json.dumps(after))


def is_cut_alike(written: str, wanted: str) -> bool:
    found, own = json.loads(written), json.loads(wanted)
    return all(found.get(key) == own.get(key) for key in ("buckets", "spread"))


def _other(written: str, wanted: str) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"the state was written with {written}, but the declaration now is {wanted}",
        remedy="go back to the former declaration, or start with a new checkpoint",
    )
