"""The copy of seriatim that the driver sends to executors on other machines.

What a worker runs has to be what the driver planned, so seriatim travels with the application and isn't looked up on
the executors. The packages it needs are not its business: the executors' Python has them (see `docs/how-to/cluster.md`).
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from pyspark import SparkContext, SparkFiles

__all__ = ["ship"]


def ship(context: SparkContext) -> None:
    """Give the executors of an application the driver's seriatim."""
    package = Path(__file__).parents[2]
    # A folder of Spark's, which serves the file from there and removes it at its end.
    archive = Path(tempfile.mkdtemp(dir=SparkFiles.getRootDirectory()), "seriatim.zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                out.write(file, file.relative_to(package.parent))
    context.addPyFile(str(archive))
