"""What all tests share: the recorded data, one Spark session, and the list of tests that must run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.command import environment
from tests.databases import Databases, fresh_box, in_memory, serving
from tests.named import Named
from tests.outcome import Outcome
from tests.shares import Shares
from tests.soak import seed, size
from tests.summary import FIGURES, Summary

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
    """The one Spark session of this worker."""
    from seriatim.spark.session.builder import open_session

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", environment()["JAVA_TOOL_OPTIONS"])
        session = open_session(
            {
                "spark.master": "local[2]",
                "spark.sql.shuffle.partitions": "2",
                # To compile a whole stage takes longer than a few rows do; what processes of their own run compiles it.
                "spark.sql.codegen.wholeStage": "false",
            }
        )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """The one PostgreSQL of this worker, which waits for no disk; SERIATIM_TEST_POSTGRESQL=16 takes the older one."""
    with in_memory(tmp_path_factory.mktemp("postgresql")) as folder, serving(folder) as found:
        yield found


@pytest.fixture(scope="session")
def postgresql(databases: Databases) -> str:
    """The DSN of a database of the one PostgreSQL of this worker in which there is no message box."""
    return databases.dsn


@pytest.fixture
def box(databases: Databases) -> Iterator[Any]:
    """A fresh message box, in a database of its own."""
    with fresh_box(databases) as opened:
        yield opened


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Tells what a long test has done; the run's last lines say it."""
    return lambda text: request.node.user_properties.append((FIGURES, text))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", metavar="FILE", help="this run is a part: count what FILE tells of those before it, and add to it"
    )
    parser.addoption("--named", metavar="FILE", help="fail if a test that FILE names didn't run and pass")
    parser.addoption("--budget", metavar="FILE", help="say where the time went, beside what FILE allows each folder")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell lets what runs in its background ignore it, and so would each process that a test starts and interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        size()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    seed()  # the workers of a parallel run inherit it
    config.pluginmanager.register(Shares(Path(__file__).parent), "shares")
    if hasattr(config, "workerinput"):
        return
    part, named, budget = (config.getoption(name) for name in ("--part", "--named", "--budget"))
    outcome = Outcome(config.rootpath / part if part else None)
    config.pluginmanager.register(outcome, "outcome")
    config.pluginmanager.register(Summary(outcome, config.rootpath / budget if budget else None), "summary")
    if named:
        config.pluginmanager.register(Named(config.rootpath / named, outcome), "named")
