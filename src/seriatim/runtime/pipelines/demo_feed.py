"""A feed of order updates, generated from a seed, with the faults of real feeds.

Every customer's updates are numbered from 1. They arrive scrambled and some of them twice; one customer's
hole is filled in time, another's is skipped and its message comes too late; a few rows are no messages at all.
The expected disposition of each row is known, so the result can be checked. Pure: a seed in, a feed out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

#: How long a hole may stay open, in seconds of the feed's own time.
HOLE_TIMEOUT_S = 600
#: The customer whose hole heals, and the one whose hole is skipped.
HEALED, SKIPPED = "customer-0001", "customer-0002"

_BEGIN = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
_HOURS = 2.0
_SPECIAL_UPDATES = 12
_STATES = ("received", "paid", "packed", "changed", "shipped")


@dataclass(frozen=True, slots=True)
class DemoFeed:
    lines: tuple[bytes, ...]
    #: Per customer the numbers of all good rows, in order of arrival.
    arrived: Mapping[str, tuple[int, ...]]
    repeated: int
    broken: int

    @property
    def delivered(self) -> dict[str, list[int]]:
        """Per customer the numbers that have to be delivered, in that order."""
        wanted = {customer: sorted(set(numbers)) for customer, numbers in self.arrived.items()}
        wanted[SKIPPED].remove(_LATE_NUMBER)
        return wanted


_LATE_NUMBER = 5
_HEALING_NUMBER = 4


@dataclass(frozen=True, slots=True)
class _Update:
    moment_s: float
    customer: str
    version: int


def generate(messages: int = 20_000, seed: int = 7) -> DemoFeed:
    chance = random.Random(seed)  # noqa: S311 - a reproducible feed is the point
    period_s = _HOURS * 3600
    updates = [*_scrambled(chance, messages, period_s), *_special(period_s)]
    repeated = chance.sample(updates, len(updates) // 100)
    updates += [_again(chance, update, period_s) for update in repeated if update.customer not in {HEALED, SKIPPED}]
    updates.sort(key=lambda update: (update.moment_s, update.customer, update.version))
    arrived: dict[str, list[int]] = {}
    for update in updates:
        arrived.setdefault(update.customer, []).append(update.version)
    lines = [_line(chance, update) for update in updates]
    broken = _broken(updates[len(updates) // 2])
    for place, line in enumerate(broken, start=1):
        lines.insert(place * len(lines) // (len(broken) + 1), line)
    twice = len(updates) - sum(len(set(numbers)) for numbers in arrived.values())
    return DemoFeed(
        tuple(lines), {customer: tuple(numbers) for customer, numbers in arrived.items()}, twice, len(broken)
    )


def _scrambled(chance: random.Random, messages: int, period_s: float) -> Iterable[_Update]:
    """Ordinary customers: in order at their source, each message displaced by up to 2% of the feed."""
    customers = max(5, messages // 40)
    versions = dict.fromkeys(range(3, customers + 3), 0)
    for place in range(messages):
        number = chance.randrange(3, customers + 3)
        versions[number] += 1
        moment_s = (place / messages + chance.uniform(0, 0.02)) * period_s * 0.98
        yield _Update(moment_s, f"customer-{number:04d}", versions[number])


def _special(period_s: float) -> Iterable[_Update]:
    """The two customers with a hole: one number comes in time, the other one after the hole was skipped."""
    step_s = period_s / 2 / _SPECIAL_UPDATES
    for version in range(1, _SPECIAL_UPDATES + 1):
        delay_s = HOLE_TIMEOUT_S * 0.9 + step_s if version == _HEALING_NUMBER else 0.0
        yield _Update(version * step_s + delay_s, HEALED, version)
        delay_s = HOLE_TIMEOUT_S * 2.0 + step_s if version == _LATE_NUMBER else 0.0
        yield _Update(version * step_s + delay_s, SKIPPED, version)


def _again(chance: random.Random, update: _Update, period_s: float) -> _Update:
    moment_s = min(period_s, update.moment_s + chance.uniform(0, period_s / 10))
    return _Update(moment_s, update.customer, update.version)


def _line(chance: random.Random, update: _Update) -> bytes:
    at = (_BEGIN + timedelta(seconds=update.moment_s)).isoformat(timespec="microseconds")
    document = {
        "kind": "order-update",
        "at": at,
        "customer": {"id": update.customer},
        "version": update.version,
        "state": chance.choice(_STATES),
        "total": round(chance.uniform(5, 500), 2),
    }
    return json.dumps(document).encode()


def _broken(near: _Update) -> list[bytes]:
    """Rows that are no messages, each for another reason."""
    at = (_BEGIN + timedelta(seconds=near.moment_s)).isoformat()
    return [
        b'{"kind": "order-update", "customer": {"id": "customer-0003"}, "versi',
        b'{"kind": "order-update", "customer": {"id": "\xff\xfe"}, "version": 1}',
        json.dumps({"at": at, "customer": {"id": "customer-0003"}, "version": "latest"}).encode(),
        json.dumps({"at": at, "customer": {"id": "customer-0003"}, "version": 2.5}).encode(),
        json.dumps({"at": at, "customer": {"id": "customer-0003"}}).encode(),
        json.dumps({"at": at, "customer": {"id": None}, "version": 3}).encode(),
        json.dumps({"at": at, "customer": {"id": "customer-0003"}, "version": 0}).encode(),
        json.dumps({"customer": {"id": "customer-0003"}, "version": 3}).encode(),
    ]
