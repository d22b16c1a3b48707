"""The copy of seriatim that the driver sends to executors on other machines.

A worker has to run the same code that the driver planned with, so seriatim is sent with the application and isn't
looked up on the executors. The packages that it needs aren't sent: the executors' Python has them (see
`docs/how-to/cluster.md`).
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from pyspark import SparkContext, SparkFiles


def ship(context: SparkContext) -> None:
    """Send the driver's seriatim to the executors of an application."""
    package = Path(__file__).parents[2]
    # A folder of Spark's, which serves the file from it and removes it at its end.
    archive = Path(tempfile.mkdtemp(dir=SparkFiles.getRootDirectory()), "seriatim.zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                out.write(file, file.relative_to(package.parent))
    context.addPyFile(str(archive))
