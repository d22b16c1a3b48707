"""Bad input: each row gets a disposition with its reason, each wrong declaration an error; nothing is lost or hangs.

What a file can have wrong is in `test_receive.py`, what a declaration can in `test_resequence.py` and `test_file.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import dataset
from pyspark.sql import Row, SparkSession

from seriatim import BestEffort, ColumnError, Fifo, Group, PolicyError, Queue, Standard, UsageError
from seriatim.cli.main import main
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from seriatim.spark import resequence
from tests.spark.resequence.test_resequence import run_until

RELEASED, HELD = "released", "held"
MISSING, NO_NUMBER, TOO_LARGE = (
    "the sequence is missing",
    "the sequence is not a whole number",
    "the sequence is too large",
)
INEXACT = "the sequence is a float too large to be exact"
OFF_STEP = "the sequence is off the step of its group"
BELOW = "the sequence is below the first number of its group"

#: Of each column what stands in it, and what becomes of it where groups begin at 10 and go on by 5.
NUMBERS: list[tuple[str, Any, str]] = [
    *[("as_text", text, RELEASED) for text in ("10", " 10 ", "+10", "0010", "10\n")],
    ("as_text", "15", HELD),
    *[("as_text", text, MISSING) for text in (None, "")],
    *[("as_text", text, NO_NUMBER) for text in ("x", "1.5", "1e1", "0xA", "10 10", "-", "\u0661\u0660", "\0")],
    *[("as_text", text, TOO_LARGE) for text in ("9223372036854775808", "9223372036854775807", "1" * 400)],
    ("as_text", "-9223372036854775809", TOO_LARGE),
    *[("as_text", text, OFF_STEP) for text in ("12", "-3", "9223372036854775802")],
    *[("as_text", text, BELOW) for text in ("5", "-5", "0")],
    ("as_double", 10.0, RELEASED),
    ("as_double", None, MISSING),
    *[("as_double", number, NO_NUMBER) for number in (1.5, float("nan"), float("inf"), float("-inf"), 1e-300)],
    *[("as_double", number, INEXACT) for number in (1e300, -1e300, 2.0**63)],
    *[("as_double", number, BELOW) for number in (-5.0, -0.0)],
    ("as_float", 10.0, RELEASED),
    *[("as_float", number, NO_NUMBER) for number in (0.1, float("nan"), float("inf"))],
    ("as_float", 1e30, INEXACT),
    ("as_decimal", Decimal("10.00"), RELEASED),
    ("as_decimal", None, MISSING),
    *[("as_decimal", Decimal(number), NO_NUMBER) for number in ("10.01", "10.50", "-0.01", "9" * 36 + ".99")],
    *[("as_decimal", Decimal(number), TOO_LARGE) for number in ("9" * 36, "-" + "9" * 36, "9223372036854775808")],
    ("as_decimal", Decimal(-5), BELOW),
    ("as_long", 10, RELEASED),
    ("as_long", None, MISSING),
    ("as_long", 2**63 - 1, TOO_LARGE),
    ("as_long", -(2**63), OFF_STEP),
    ("as_long", -5, BELOW),
    ("as_ticket", (0, 10), RELEASED),
    *[("as_ticket", ticket, MISSING) for ticket in (None, (None, 10), (0, None), (None, None))],
    *[("as_ticket", ticket, TOO_LARGE) for ticket in ((2**31 - 1, 2**62), (1, 2**63 - 1))],
]
TYPES = {
    "as_text": "string",
    "as_double": "double",
    "as_float": "float",
    "as_decimal": "decimal(38,2)",
    "as_long": "bigint",
    "as_ticket": "struct<epoch: int, number: bigint>",
}


def fate(row: Row) -> str:
    return row.reason if row.disposition == "invalid" else row.disposition


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Mapping[int, Row]:
    """Every number in a group of its own."""
    rows = [(n, f"g{n}", to, *(value if to == c else None for c in TYPES)) for n, (to, value, _) in enumerate(NUMBERS)]
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    frame = spark.createDataFrame(rows, f"message int, key string, destination string, {columns}")
    policy = Standard(start=10, increment=5)
    decided = resequence(frame, queues=[Queue(name, policy, "key", name) for name in TYPES], output="all").collect()
    assert len(decided) == len(NUMBERS)
    return {row.message: row for row in decided}


@pytest.mark.parametrize("message", range(len(NUMBERS)), ids=lambda n: f"{NUMBERS[n][0]}={NUMBERS[n][1]!r:.30}")
def test_a_number_that_is_none(judged: Mapping[int, Row], message: int) -> None:
    assert fate(judged[message]) == NUMBERS[message][2]


KEYS: list[tuple[bytes | None, str]] = [
    (b"a", RELEASED),
    (b"k" * 1024, RELEASED),
    ("\u00e9".encode() * 512, RELEASED),
    (None, "the group key is missing"),
    (b"", "the group key is missing"),
    (b"k" * 2048, "the group key is longer than 1 KiB"),
    ("\u00e9".encode() * 513, "the group key is longer than 1 KiB"),
    (b"a\0b", "the group key has a NUL in it"),
    (b"\xff\xfe", "the group key is not UTF-8 text"),
    (b"\xed\xa0\x80", "the group key is not UTF-8 text"),
    (b"caf\xe9", "the group key is not UTF-8 text"),
]


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_a_key_that_is_none(spark: SparkSession, kind: str) -> None:
    rows = [(n, bytearray(key) if key is not None else None) for n, (key, _) in enumerate(KEYS)]
    frame = spark.createDataFrame(rows, "message int, key binary").selectExpr("message", f"cast(key as {kind}) as key")
    queue = Queue("all", Fifo(), group="key")
    copies = frame.selectExpr("*", "explode(array('all', 'rest')) as destination")
    decided = (
        resequence(
            copies,
            queues=[queue, Queue("rest", Fifo(), group=Group("key", default="none"))],
            arrival="message",
            output="all",
        )
        .select("message", "destination", "disposition", "reason", "ordinal")
        .collect()
    )
    assert len(decided) == 2 * len(KEYS)
    strict = {row.message: fate(row) for row in decided if row.destination == "all"}
    assert strict == dict(enumerate(what for _, what in KEYS))
    lenient = {row.message: (row.disposition, row.ordinal) for row in decided if row.destination == "rest"}
    good = [n for n, (_, what) in enumerate(KEYS) if what == RELEASED]
    bad = [n for n, (_, what) in enumerate(KEYS) if what != RELEASED]
    assert lenient == dict.fromkeys(good, (RELEASED, 1)) | {n: (RELEASED, place) for place, n in enumerate(bad, 1)}


def test_a_query_sets_bad_rows_aside_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("key", pa.binary()), ("number", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    (tmp_path / "in").mkdir()
    at = 1_700_000_000_000_000
    bad = [
        (b"\xff", "1", at),
        (None, "1", at),
        (b"a", "x", at),
        (b"a", None, at),
        (b"a", "9" * 30, at),
        (b"a", "-1", at),
    ]
    rows = [(b"a", "2", at), *bad, (b"a", "3", None), (b"a", "1", at), (b"a", "3", at)]
    columns = [pa.array([row[n] for row in rows], field.type) for n, field in enumerate(schema)]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), tmp_path / "in/a.parquet")
    stream = spark.readStream.schema("key binary, number string, at timestamp").parquet(str(tmp_path / "in"))
    ordered = resequence(
        stream, group="key", sequence="number", policy=Standard(), clock="event", time="at", output="all", buckets=2
    )
    decided = run_until(ordered, tmp_path / "checkpoint", len(rows))
    assert [row.number for row in decided if row.disposition == RELEASED] == ["1", "2", "3"]
    assert sorted(row.reason for row in decided if row.disposition == "invalid") == sorted(
        [
            "the group key is not UTF-8 text",
            "the group key is missing",
            NO_NUMBER,
            MISSING,
            TOO_LARGE,
            BELOW,
            "the event time is missing",
        ]
    )
    assert len(decided) == len(rows)


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"group": "nix"}, ColumnError, "column 'nix': there is no such column for the group"),
        ({"sequence": "yes"}, ColumnError, "column 'yes': a sequence can't be a boolean"),
        ({"sequence": "day"}, ColumnError, "column 'day': a sequence can't be a date"),
        ({"arrival": "nix"}, ColumnError, "column 'nix': there is no such column for the order of arrival"),
        ({"clock": "event", "time": "nix"}, ColumnError, "column 'nix': there is no such column for the event time"),
        ({"clock": "event", "time": "n"}, ColumnError, "column 'n'"),
        ({"clock": "wall"}, UsageError, 'clock must be "processing" or "event"'),
        ({"output": "everything"}, UsageError, "output must be"),
        ({"invalid": "nix"}, ColumnError, "column 'nix'"),
        ({"queues": []}, UsageError, "queues= can't be combined with"),
        (
            {"opens": "n = 1", "arrival": None},
            UsageError,
            "a group that messages open or close needs the order of arrival",
        ),
        ({"closes": "nix = 1", "arrival": "n"}, UsageError, "there is no property 'nix'"),
        ({"void": "n"}, ColumnError, "whether a row is a void can't be a bigint"),
        ({"compare": ["n", "nix"]}, ColumnError, "column 'nix'"),
        ({"policy": Standard(remember=64)}, UsageError, "the frame doesn't say what their content is"),
        (
            {"group": None, "sequence": None, "policy": None, "compare": "n", "queues": [Queue("q", Fifo(), "g")]},
            UsageError,
            "queues= can't be combined with compare=",
        ),
        ({"buckets": 0}, UsageError, "buckets must be a whole number"),
    ],
    ids=str,
)
def test_a_declaration_that_does_not_fit_the_frame(
    spark: SparkSession, options: dict[str, Any], kind: type[UsageError], told: str
) -> None:
    frame = spark.sql("select 'a' as g, 1L as n, true as yes, current_date() as day")
    with pytest.raises(kind) as caught:
        resequence(frame, **({"group": "g", "sequence": "n", "policy": Standard()} | options))
    assert told in str(caught.value)


@pytest.mark.parametrize("wrong", ["5 parsecs", "m", "-5s", "", "1e400s", float("nan"), -1, True])
def test_a_duration_that_is_none(wrong: Any) -> None:
    with pytest.raises(PolicyError, match="hole_timeout"):
        Standard(hole_timeout=wrong)
    with pytest.raises(PolicyError, match="window"):
        BestEffort(window=wrong)


FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: crm
    source: {{format: {kind}, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{customer: {{path: {dot}customer}}, version: {{path: {dot}version, type: long}}}}
route:
  - to: strict
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out/strict}}
  - to: lenient
    resequence: {{policy: best_effort, group: {{by: customer, default: nobody}}, sequence: version}}
    deliver: {{format: parquet, path: {folder}/out/lenient}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def declared(folder: Path, kind: str = "json") -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(folder=folder, kind=kind, dot="$." if kind == "json" else ""))
    return file


@pytest.mark.telling
@pytest.mark.usefixtures("spark")
def test_a_pipeline_sets_bad_rows_aside_and_conserves_all(folder: Path) -> None:
    lines: list[Any] = [
        {"customer": "a", "version": 2},
        {"version": 1},
        {"customer": None, "version": 1},
        {"customer": "", "version": 1},
        {"customer": "k" * 2048, "version": 1},
        {"customer": "a\0", "version": 1},
        {"customer": "a"},
        {"customer": "a", "version": None},
        {"customer": "a", "version": "x"},
        {"customer": "a", "version": 1.5},
        {"customer": "a", "version": 1e300},
        {"customer": "a", "version": 2**63},
        {"customer": "a", "version": 2**63 - 1},
        {"customer": "a", "version": -1},
        {"customer": ["a"], "version": 1},
        {"customer": "a", "version": 1},
        {"customer": "a", "version": 1},
    ]
    texts = [*(json.dumps(line).encode() for line in lines), b"{", b"", b'{"customer": "\xff", "version": 1}', b"NaN"]
    (folder / "in/a.json").write_bytes(b"\n".join(texts) + b"\n")
    told = run(load(declared(folder)), once=True)
    strict, lenient = told.accounts
    assert strict.missing == lenient.missing == 0
    assert strict.arrived == lenient.arrived
    assert (strict.released, strict.duplicate, strict.held) == (2, 1, 0)
    assert strict.invalid == strict.arrived - 3
    delivered = dataset.dataset(folder / "out/lenient", format="parquet").to_table().to_pylist()
    assert [row["ordinal"] for row in delivered if row["group"] == "nobody"] == [1, 2, 3, 4, 5]
    aside = list(read_set_aside(folder / "checkpoint/set-aside"))
    assert len(aside) == strict.set_aside + lenient.set_aside
    assert all(one.reason for one in aside)


@pytest.mark.usefixtures("spark")
def test_keys_that_are_no_text_in_a_pipeline(folder: Path) -> None:
    keys = [b"a", b"\xff\xfe", None, b"a\0", b"k" * 2048]
    table = pa.table({"customer": pa.array(keys, pa.binary()), "version": pa.array([1] * len(keys), pa.int64())})
    pq.write_table(table, folder / "in/a.parquet")
    strict, lenient = run(load(declared(folder, "parquet")), once=True).accounts
    assert (strict.arrived, strict.released, strict.invalid) == (5, 1, 4)
    assert (lenient.arrived, lenient.released + lenient.invalid) == (5, 5)
    aside = [one for one in read_set_aside(folder / "checkpoint/set-aside") if one.destination == "strict"]
    assert len(aside) == 4
    assert all(one.reason for one in aside)


@pytest.mark.usefixtures("spark")
def test_a_body_of_50_mb_waits_behind_a_hole_and_leaves_whole(folder: Path) -> None:
    large = json.dumps({"customer": "a", "version": 2, "pad": "x" * 50_000_000})
    (folder / "in/a.json").write_text(large + "\n")
    pipeline = load(declared(folder))
    strict, lenient = run(pipeline, once=True).accounts
    assert (strict.held, lenient.released) == (1, 1)
    (folder / "in/b.json").write_text('{"customer": "a", "version": 1}\n')
    strict, _ = run(pipeline, once=True).accounts
    assert (strict.released, strict.held) == (2, 0)
    (last,) = sorted((folder / "out/strict").glob("batch=*/part-*"))
    first, second = (json.loads(line) for line in last.read_text().splitlines())
    assert (first["version"], second["version"]) == (1, 2)
    assert second["body"] == large


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("policy: standard", "policy: stndard", "pipeline.yaml:12:26: "),
        ("policy: best_effort", "policy: best_effort, window: 5s, max_rows: 2", "takes window or max_rows, not both"),
        ("policy: standard", "policy: standard, hole_timeout: 5 parsecs", "'5 parsecs' is not a duration"),
        ("group: customer", "group: custmer", "no location promotes a property 'custmer'"),
        ("/in,", "/nowhere,", "/nowhere' does not exist"),
        ("maxFilesPerTrigger", "maxFilesPerTriger", "unknown option 'maxFilesPerTriger' of json"),
    ],
)
def test_the_command_says_in_a_line_what_is_wrong(folder: Path, old: str, new: str, told: str) -> None:
    file = declared(folder)
    file.write_text(file.read_text().replace(old, new, 1))
    done = CliRunner().invoke(main, ["run", str(file), "--once"])
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)  # no traceback
    assert told in done.stderr
    assert done.stdout == ""


@pytest.mark.usefixtures("spark")
def test_the_command_refuses_the_checkpoint_of_another_pipeline(folder: Path) -> None:
    file = declared(folder)
    run(load(file), once=True)
    for old, new, told in [
        ("name: orders", "name: parcels", "its pipeline is orders, yours is parcels"),
        ("buckets: 2", "buckets: 4", "its buckets are 2, yours are 4"),
        ("policy: standard", "policy: best_effort", "it is standard by customer, yours is best_effort by customer"),
        ("group: customer", "group: location", "it is standard by customer, yours is standard by location"),
    ]:
        declared(folder).write_text(file.read_text().replace(old, new, 1))
        done = CliRunner().invoke(main, ["run", str(file), "--once"])
        assert done.exit_code == 3, done.stderr
        assert isinstance(done.exception, SystemExit)  # no traceback
        assert told in done.stderr
