"""Python workers start with compiled sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from seriatim.spark.session import builder

INSTALLED = Path(pyspark.__file__).parent
SCRIPT = Path(builder.__file__).with_name("worker-python")
# The one that has ten seconds to connect.
MODULE = "pyspark.sql.streaming.transform_with_state_driver_worker"


def as_spark_starts_it(*words):
    """What a worker says that is started as Spark starts it, with its path."""
    library = INSTALLED / "python" / "lib"
    (py4j,) = library.glob("py4j-*.zip")
    (jar,) = (INSTALLED / "jars").glob("spark-core_*.jar")
    path = [library / "pyspark.zip", py4j, jar, "/of the user's", os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "SPARK_HOME": str(INSTALLED),
        "PYTHONPATH": ":".join(map(str, path)),
        "SERIATIM_PYTHON": sys.executable,
    }
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.split("\n")


def test_the_archive_leaves_the_path_and_nothing_else_does():
    code = f"import sys, {MODULE} as module; print(module.__file__, module.__cached__, *sys.path, sep='\\n')"
    source, compiled, *path = as_spark_starts_it(SCRIPT, "-c", code)
    assert Path(source).is_relative_to(INSTALLED)
    assert Path(compiled).exists()
    assert not any(one.endswith((".zip", ".jar")) and one.startswith(str(INSTALLED)) for one in path)
    assert "/of the user's" in path


def test_an_interpreter_that_someone_names_stays():
    assert builder._python_of_workers("/usr/bin/another") == "/usr/bin/another"
    assert builder._python_of_workers(sys.executable) == str(SCRIPT)


@pytest.mark.parametrize("name", ["SPARK_HOME", "PYSPARK_GATEWAY_PORT"])
def test_another_spark_starts_its_workers_itself(monkeypatch, name):
    monkeypatch.setenv(name, "/opt/spark")
    assert builder._python_of_workers(sys.executable) == sys.executable


def whereabouts(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"where": [pyspark.__file__] * batch.num_rows})


def test_workers_have_the_installed_pyspark(spark):
    (row,) = spark.range(1).mapInArrow(whereabouts, "where string").collect()
    assert Path(row["where"]).parent == INSTALLED
