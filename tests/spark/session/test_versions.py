"""Another Spark than those that were tried is refused in a sentence, and what an older one can't do, too."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from seriatim.operations.doctor import machine_checks
from seriatim.spark.session import versions
from tests.command import environment

pytestmark = pytest.mark.dear

ROOT = Path(__file__).parents[3]


def on_spark(version: str, code: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """What a Python says whose Spark gives itself for another version."""
    text = f"import pyspark\npyspark.__version__ = {version!r}\n{code}"
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, env=environment(), cwd=folder
    )


@pytest.mark.parametrize("version", ["3.5.6", "4.0.5", "4.4.0", "5.0.0.dev1"])
@pytest.mark.parametrize("function", ["resequence", "stamp", "route"])
def test_another_spark_is_refused_in_a_sentence(version: str, function: str) -> None:
    said = on_spark(version, f"from seriatim.spark import {function}")
    assert said.returncode == 1
    assert said.stderr.splitlines()[-1] == (
        f"seriatim.errors.EnvironmentProblem: seriatim works with Spark 4.1 to 4.3, and this is Spark {version}"
        ' (pip install "pyspark>=4.1,<4.4")'
    )


def test_a_command_refuses_it_without_a_stack_trace(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.yaml").write_text(
        "name: orders\ncheckpoint: checkpoint\nreceive:\n  - location: crm\n    source: {format: json, path: in}\n"
        "    promote: {key: $.group}\n"
        "route:\n  - to: out\n    resequence: {policy: fifo, group: key}\n    deliver: {format: json, path: out}\n"
    )
    said = on_spark("4.0.5", "from seriatim.cli.main import main\nmain(['run', 'pipeline.yaml', '--once'])", tmp_path)
    assert (said.returncode, said.stderr.splitlines()) == (
        3,
        ['error: seriatim works with Spark 4.1 to 4.3, and this is Spark 4.0.5 (pip install "pyspark>=4.1,<4.4")'],
    )


@pytest.mark.parametrize("version", ["4.1.4", "4.2.1", "4.3.0"])
def test_versions_that_work_are_not(version: str) -> None:
    said = on_spark(version, "from seriatim.spark import resequence, stamp, route, merge, held")
    assert (said.returncode, said.stderr) == (0, "")


def test_before_4_2_a_stream_from_a_box_is_refused_where_spark_shows_the_error() -> None:
    code = """
from pyspark.sql.types import StructType
from seriatim.errors import EnvironmentProblem
from seriatim.runtime.pipelines.box_format import DefaultSource
reader = DefaultSource({"queue": "orders"}).streamReader(StructType())
for ask in (reader.initialOffset, reader.latestOffset, lambda: reader.partitions({}, {})):
    try:
        ask()
    except EnvironmentProblem as error:
        print(error.what)
"""
    what = "a stream from a message box needs Spark 4.2 or newer, and this is Spark 4.1.4"
    assert on_spark("4.1.4", code).stdout.splitlines() == [what] * 3
    assert "AttributeError" not in on_spark("4.3.0", code.partition("for ask")[0] + "reader.read").stderr


def test_the_bounds_stand_alike_wherever_they_stand() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bound,) = [one for one in project["optional-dependencies"]["spark"] if one.startswith("pyspark")]
    least, below = versions.LEAST, versions.BELOW
    assert bound == f"pyspark>={least[0]}.{least[1]},<{below[0]}.{below[1]}"
    assert ("pyspark", least, below) in machine_checks._EXTRAS["spark"]


def test_the_schema_of_rows_has_the_zone_of_the_session_at_each_depth() -> None:
    moment = T.TimestampType()
    inner = T.StructType([T.StructField("at", moment), T.StructField("plain", T.TimestampNTZType())])
    frame = T.StructType(
        [
            T.StructField("at", moment),
            T.StructField("inner", inner),
            T.StructField("many", T.ArrayType(inner)),
            T.StructField("by", T.MapType(T.StringType(), inner)),
            T.StructField("n", T.LongType()),
        ]
    )
    wanted = versions.arrow_schema(frame, "Europe/Berlin")
    # What Spark before 4.2 says of the same frame names UTC.
    told = versions.arrow_schema(frame, "UTC")
    assert pa.schema([versions.in_zone(field, "Europe/Berlin") for field in told]) == wanted
    assert versions.spark_schema(wanted) == frame


def test_an_offset_of_progress_is_read_as_each_version_tells_it() -> None:
    offset = {"at": 1, "by": "x", "log": 0, "ticks": "3"}
    for version, text in (("4.1.4", str(offset)), ("4.3.0", str(offset).replace("'", '"'))):
        code = f"from seriatim.spark.session.versions import offset\nassert offset({text!r}) == {offset!r}"
        code += "\nassert offset({'a': 1}) == {'a': 1} and offset('17') == '17' and offset(None) is None"
        said = on_spark(version, code)
        assert said.returncode == 0, said.stderr
