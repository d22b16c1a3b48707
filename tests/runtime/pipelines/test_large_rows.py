"""Rows that are larger than their location takes, and small files that become large ones: bounded, named, nothing else lost."""

from __future__ import annotations

import bz2
import gzip
import json
from contextlib import suppress

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from seriatim.errors import EnvironmentProblem
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from tests import soak

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/crm, options: {{maxRowBytes: {most}}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
  - location: shop
    source: {{format: json, path: {folder}/shop, options: {{maxRowBytes: {most}, multiLine: true}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out}}
"""

pytestmark = pytest.mark.usefixtures("spark")


def order(version, size):
    """A message of this many bytes."""
    text = json.dumps({"customer": "c", "version": version, "pad": ""}).encode()
    return text[:-2] + b"x" * (size - len(text)) + text[-2:]


@pytest.fixture
def pipeline(tmp_path):
    for name in ("crm", "shop"):
        (tmp_path / name).mkdir()

    def made(most):
        (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path, most=most))
        return load(tmp_path / "pipeline.yaml")

    return made


def versions(folder):
    files = sorted((folder / "out").glob("batch=*/part-*"))  # pyarrow takes no line of 100 MB
    return [int(json.loads(line)["version"]) for file in files for line in file.read_bytes().splitlines()]


def looked_before_the_end(query, look=StreamingQuery.exception):
    """Its failure as it was known before the query ended; the answer comes afterwards."""
    found = look(query)
    with suppress(StreamingQueryException):
        query.awaitTermination(60)
    return found


def test_rows_that_are_too_large(pipeline, tmp_path, monkeypatch):
    pipeline = pipeline(most := 2_000)
    crm, shop = tmp_path / "crm", tmp_path / "shop"
    # What is expanded in a worker is `invalid`, and what stands beside it goes its way.
    lines = [order(1, 100), order(2, most + 1), order(2, most), order(3, 5_000_000)]
    (crm / "a.json.gz").write_bytes(gzip.compress(b"\r\n".join(lines)))
    (shop / "b.json.gz").write_bytes(gzip.compress(order(9, 5_000_000)))
    (crm / "c.json").write_bytes(b"".join(order(version, 700) + b"\n" for version in range(3, 9)))
    (crm / "d e+%[1].json.bz2").write_bytes(bz2.compress(b"\n".join(order(version, 900) for version in (9, 10))))
    (account,) = run(pipeline, once=True).accounts
    assert (account.released, account.invalid) == (10, 3)
    assert versions(tmp_path) == list(range(1, 11))
    reasons = {row.message_id: row.reason for row in read_set_aside(tmp_path / "checkpoint" / "set-aside")}
    limit = "bytes, and the location takes 2,000 (maxRowBytes)"
    assert reasons == {
        "crm/a.json.gz:2": f"a.json.gz:2: the row has 2,001 {limit}",
        "crm/a.json.gz:4": f"a.json.gz:4: the row has 5,000,000 {limit}",
        "shop/b.json.gz:1": f"b.json.gz:1: the row has more than 2,000 {limit}",
    }

    # What Spark would read as a whole stops the pipeline by name before it is read, whenever the query ends.
    for file, content, what in (
        (crm / "e f.json", order(11, 500) + b"\n" + order(12, 9_000), "has a larger row"),
        (crm / "g.json.bz2", bz2.compress(order(12, 9_000)), "has a larger row"),
        (crm / "h.json.bz2", bz2.compress(b"\n" * 500_000), "more than 1,000 times larger"),
        (shop / "i.json", order(13, 9_000), "has more than 2,000 bytes"),
    ):
        file.write_bytes(content)
        with monkeypatch.context() as patched:
            patched.setattr(StreamingQuery, "exception", looked_before_the_end)
            with pytest.raises(EnvironmentProblem, match=what) as caught:
                run(pipeline, once=True)
        assert str(file) in caught.value.what
        file.write_bytes(b"")
    (crm / "j.json").write_bytes(order(11, most) + b"\n" + order(12, most))
    (account,) = run(pipeline, once=True).accounts
    assert account.released == 2
    assert versions(tmp_path) == list(range(1, 13))


@pytest.mark.soak
def test_large_bodies_and_bombs(pipeline, tmp_path, figures):
    """At full size: bodies of 100 MB, a row of 3 GiB in 14 MB, and one of 1 GiB in 5 MB."""
    large, most = soak.sized(100_000_000, 1_000_000), soak.sized(128 * 2**20, 1_500_000)
    crm = tmp_path / "crm"
    for version in range(1, 5):
        (crm / f"{version}.json").write_bytes(order(version, large) + b"\n")
    for name, size in (("bomb", soak.sized(3 * 2**30, 30_000_000)), ("other", soak.sized(2**30, 10_000_000))):
        with gzip.open(crm / f"{name}.json.gz", "wb", compresslevel=1) as file:
            for _ in range(size // 1_000_000):
                file.write(b"x" * 1_000_000)
            file.write(b"\n" + order(5 if name == "bomb" else 6, 100))
    summary = run(pipeline(most), once=True)
    (account,) = summary.accounts
    assert (account.released, account.invalid) == (6, 2)
    assert versions(tmp_path) == list(range(1, 7))
    figures(f"4 bodies of {large:,} bytes, and rows of {size:,} bytes and more set aside, in {summary.seconds:.0f} s")
