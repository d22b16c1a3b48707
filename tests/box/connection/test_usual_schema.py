"""Pipelines and Spark make a box in the usual schema only: another name may be mistyped."""

from __future__ import annotations

import psycopg
import pytest

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.pipelines.staging import Staging


@pytest.mark.parametrize("opened", [PipelineFeed, Staging])
def test_another_schema_is_never_made(box, opened):
    with pytest.raises(sq.SchemaMismatch, match="seriatim box migrate"):
        opened(box.dsn, "mistyped")
    with psycopg.connect(box.dsn) as connection:
        assert connection.execute("SELECT to_regnamespace('mistyped') IS NULL").fetchone() == (True,)


def test_the_usual_one_is_made(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    with Staging() as staging:
        assert staging.merge("w", 0, []) == 0
