"""What all tests share: the recorded data, one Spark session, and the list of tests that must run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.named import unmet

# How long an example takes is the machine's business, and that may have other work.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with recorded data; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("SERIATIM_SHARED", "../shared"))
    if not folder.is_absolute():
        folder = Path(__file__).parents[1] / folder
    if not (folder / "data").is_dir():
        pytest.skip("the recorded data is not here (SERIATIM_SHARED names its folder)")
    return folder.resolve()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark session of the whole run."""
    from seriatim.spark.session import open_session

    session = open_session({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of the one PostgreSQL of the whole run; SERIATIM_TEST_POSTGRESQL=16 takes the older one."""
    from seriatim.box.binaries import NEWEST
    from seriatim.box.embedded import EmbeddedServer

    major = int(os.environ.get("SERIATIM_TEST_POSTGRESQL", NEWEST))
    server = EmbeddedServer(tmp_path_factory.mktemp("postgresql") / "server", major)
    yield server.dsn
    server.close()


@pytest.fixture
def box(postgresql: str) -> Iterator[Any]:
    """A fresh message box, in a schema of its own."""
    from seriatim.box.box import MessageBox

    with MessageBox.open(postgresql, schema=f"test_{next(_BOXES)}") as opened:
        yield opened


_BOXES = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--named", metavar="FILE", help="fail if a test that FILE names didn't run and pass")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--named")
    if path:
        config.pluginmanager.register(_Named(config.rootpath / path), "named")


class _Named:
    """Watches what becomes of every test."""

    def __init__(self, path: Path) -> None:
        self._named = path.read_text(encoding="utf-8")
        self._passed: set[str] = set()
        self._unmet: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._unmet = unmet(self._named, self._passed)
        if self._unmet and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name in self._unmet:
            terminalreporter.write_line(f"NAMED BUT NOT PASSED: {name}", red=True)
