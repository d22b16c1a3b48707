"""The example of two regions does what its README says."""

from __future__ import annotations

import psycopg
import pytest
from examples.carrier.__main__ import CHANGES, DATABASES, SHIPMENTS, STATUSES, main


@pytest.mark.dear
def test_shipments_go_on_in_the_other_region(postgresql):
    assert main(postgresql) == {key: [*STATUSES, CHANGES[-1][1]] for key in SHIPMENTS}
    with psycopg.connect(postgresql) as connection:
        left = connection.execute("SELECT datname FROM pg_database WHERE datname = ANY (%s)", [list(DATABASES)])
        assert left.fetchall() == []
