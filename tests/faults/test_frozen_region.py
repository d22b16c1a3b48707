"""A region whose server is frozen: what that costs a sender, counted in waits for its answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.errors import Unavailable
from seriatim.regions.party import Party
from tests.databases import Databases, fresh_box
from tests.faults.process import children
from tests.regions.conftest import _make
from tests.regions.two import NAME, STATUS, message

#: Enough for an answer of a machine that is busy with other tests.
PATIENCE_S = 5.0


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parties for whose answers a call has waited in vain, each as often as that was."""
    found: list[str] = []
    away = Party._away

    def noted(self: Party[Any], why: str) -> Unavailable:
        if why.startswith("it didn't answer within"):
            found.append(self.name)
        return away(self, why)

    monkeypatch.setattr(Party, "_away", noted)
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    found = EmbeddedServer(tmp_path / "server")
    yield found
    found.close()


@pytest.mark.proves("a region whose server is frozen costs one call one wait, and the next ones none")
@pytest.mark.parametrize("numbers", ["own", "next", "journal"])
@pytest.mark.parametrize("frozen", ["a", "b"])
def test_a_frozen_region_is_waited_for_once(
    databases: Databases, tmp_path: Path, server: EmbeddedServer, waits: list[str], frozen: str, numbers: str
) -> None:
    template = databases.template("empty journal", _make)
    with fresh_box(databases) as box, databases.clone(template) as journal:
        given: list[str | sq.MessageBox] = [server.dsn, box]
        a, b = given if frozen == "a" else reversed(given)
        gives: Literal["journal"] | None = "journal" if numbers == "journal" else None
        with sq.Regions(a, b, journal, name=NAME, numbers=gives, patience=PATIENCE_S, retry_after=3600) as regions:
            regions.define(*STATUS)
            regions.publish(message("s", 1 if numbers == "own" else None))
            pid = int((tmp_path / "server" / "data" / "postmaster.pid").read_text().splitlines()[0])
            pids = [pid, *children(pid)]
            for one in pids:
                os.kill(one, signal.SIGSTOP)
            try:
                for number in (2, 3, 4):
                    (sent,) = regions.publish(message("s", number if numbers == "own" else None))
                    assert set(sent.known_by) == {"a", "b", "journal"} - {frozen}
                    assert waits == [f"region {frozen}"]
            finally:
                for one in pids:
                    os.kill(one, signal.SIGCONT)
