"""A link to another host proves which host answers, or is refused."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from seriatim.box.links.carrier import carrier_dsn
from seriatim.errors import UsageError


def _mode(dsn, environment=None, **others):
    return conninfo_to_dict(carrier_dsn(dsn, environment=environment or {}, **others)).get("sslmode")


@pytest.mark.parametrize(
    "dsn",
    [
        "dbname=a",
        "host=/var/run/postgresql dbname=a",
        "host=@socket dbname=a",
        "postgresql://u@localhost/a",
        "postgresql://u@127.0.0.1:5433/a",
        "postgresql://u@[::1]/a",
        "host=localhost,127.0.0.2 dbname=a",
        "host=south hostaddr=127.0.0.1 dbname=a",
    ],
)
def test_what_leaves_no_host_needs_nothing(dsn):
    assert _mode(dsn) is None


@pytest.mark.parametrize(
    ("dsn", "environment", "says"),
    [
        ("postgresql://u@south/a", {}, "with no sslmode"),
        ("postgresql://u@south/a?sslmode=require", {}, "with sslmode=require"),
        ("postgresql://u@south/a?sslmode=prefer", {}, "with sslmode=prefer"),
        ("postgresql://u@south/a?sslmode=verify-ca", {}, "with sslmode=verify-ca"),
        ("host=localhost,south dbname=a", {}, "with no sslmode"),
        ("host=localhost hostaddr=10.0.0.7 dbname=a", {}, "with no sslmode"),
        ("dbname=a", {"PGHOST": "south"}, "with no sslmode"),
        ("dbname=a", {"PGHOSTADDR": "10.0.0.7"}, "with no sslmode"),
        ("host=south dbname=a", {"PGSSLMODE": "require"}, "with sslmode=require"),
        ("service=south sslmode=require", {}, "with sslmode=require"),
    ],
)
def test_what_somebody_on_the_way_could_answer_is_refused(dsn, environment, says):
    with pytest.raises(UsageError, match=says) as caught:
        carrier_dsn(dsn, environment=environment)
    assert "insecure=True" in caught.value.remedy
    assert _mode(dsn, environment, insecure=True) in (None, "require", "prefer", "verify-ca")


@pytest.mark.parametrize(
    ("dsn", "environment"),
    [
        ("postgresql://u@south/a?sslmode=verify-full", {}),
        ("host=south dbname=a", {"PGSSLMODE": "verify-full"}),
        ("service=south", {}),
        ("dbname=a", {"PGSERVICE": "south"}),
    ],
)
def test_another_host_is_always_proven(dsn, environment):
    parts = conninfo_to_dict(carrier_dsn(dsn, environment=environment))
    assert (parts["sslmode"], parts["gssencmode"]) == ("verify-full", "disable")


def test_an_error_has_no_secret_in_it():
    dsn = "postgresql://u:${SOUTH_PASSWORD}@south/a"
    with pytest.raises(UsageError) as caught:
        carrier_dsn(dsn, environment={"SOUTH_PASSWORD": "hunter2"})
    assert caught.value.where == "south:5432/a"
    assert "hunter2" not in str(caught.value)
    given = carrier_dsn(f"{dsn}?sslmode=verify-full", environment={"SOUTH_PASSWORD": "hunter2"})
    assert conninfo_to_dict(given)["password"] == "hunter2"
