"""The example of two regions does what its README says."""

from __future__ import annotations

import psycopg
import pytest
from examples.carrier.__main__ import CHANGES, DATABASES, SHIPMENTS, STATUSES, main
from psycopg import sql


@pytest.fixture
def server(postgresql):
    yield postgresql
    with psycopg.connect(postgresql, autocommit=True) as admin:
        for name in DATABASES:
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def test_shipments_go_on_in_the_other_region(server):
    assert main(server) == {key: [*STATUSES, CHANGES[-1][1]] for key in SHIPMENTS}
