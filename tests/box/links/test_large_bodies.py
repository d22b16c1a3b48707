"""How much memory a large body takes on its way: in both backends, and in the process that transmits."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.links.transmission import Roads, transmit
from tests.box.links.pairs import paired
from tests.soak import sized

MIB = 2**20
BODY = sized(200, 30) * MIB


def peak(process: int | str, but: str | None = None) -> int:
    """The most memory that a process has held, in bytes; without that of one kind that it shares with others now."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    found = {
        name: int(value.split()[0]) * 1024 for name, value in (line.split(":", 1) for line in lines) if "kB" in value
    }
    return found["VmHWM"] - found.get(but or "", 0)


@pytest.mark.soak
def test_a_large_body_is_held_a_few_times_in_backends_and_never_in_the_transmitter(databases, figures):
    with paired(databases) as pair, pair.near.more(1) as near:
        near.transmit()
        pair.near.publish(
            sq.Message(type="order", body=os.urandom(BODY), context={"to": "orders", "customer": "c1", "nth": 1})
        )
        roads = Roads()
        Path("/proc/self/clear_refs").write_text("5")  # from here on
        before = peak("self")
        while not (done := transmit(near.access, roads)[0]).acknowledged:
            assert done.error is None
        with near.access.transaction() as transaction:
            here = peak(transaction.connection.info.backend_pid, "RssShmem")
        with psycopg.connect(pair.far.dsn) as connection:
            (backend,) = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'seriatim link'"
            ).fetchone()
        there, transmitter = peak(backend, "RssShmem"), peak("self") - before
        roads.close()
    figures(
        f"{BODY // MIB} MiB over a link: {here / BODY:.1f} times the body in the backend here, {there / BODY:.1f} there,"
        f" {transmitter / MIB:.0f} MiB in the transmitter"
    )
    assert here < 3.5 * BODY + 30 * MIB
    assert there < 5 * BODY + 30 * MIB
    assert transmitter < 48 * MIB
