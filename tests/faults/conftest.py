"""What is written under faults has to outlive them: the PostgreSQL of these tests waits for the disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases import Databases, serving


@pytest.fixture(scope="package")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with serving(tmp_path_factory.mktemp("durable"), durable=True) as found:
        yield found


@pytest.fixture(scope="package")
def postgresql(databases: Databases) -> str:
    return databases.dsn
