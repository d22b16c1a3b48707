"""The wheel has all that it needs: it works without the repository."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from seriatim.extras import EXTRAS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what is in the wheel, as pip would put it among the packages."""
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def ran(installed: Path, folder: Path, *words: str) -> str:
    own = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=own, check=True, capture_output=True, text=True, timeout=120
    ).stdout


def test_its_modules_data_and_commands_are_there(installed, box, tmp_path):
    assert ran(installed, tmp_path, "-c", "import seriatim; print(seriatim.__file__)").startswith(str(installed))
    assert (installed / "seriatim" / "py.typed").is_file()
    assert (installed / "pyspark_seriatim" / "__init__.py").is_file()
    made = ["-m", "seriatim", "box", "migrate", "--dsn", box.dsn, "--schema", f"{box.schema}_wheel"]
    assert "baseline" in ran(installed, tmp_path, *made)
    explained = ran(installed, tmp_path, "-m", "seriatim", "doctor", "--explain", "faulted")
    assert "seriatim group retry c1" in explained  # a page that the wheel carries
    assert ran(installed, tmp_path, "-m", "seriatim", "docs") == ran(ROOT / "src", tmp_path, "-m", "seriatim", "docs")
    assert "cd shop" in ran(installed, tmp_path, "-m", "seriatim", "init", "shop")
    assert "test_orders.py" in {one.name for one in (tmp_path / "shop").iterdir()}


def test_it_says_its_command_and_its_extras(installed):
    (about,) = installed.glob("seriatim-*.dist-info")
    points = configparser.ConfigParser()
    points.read(about / "entry_points.txt")
    assert dict(points["console_scripts"]) == {"seriatim": "seriatim.cli.main:main"}
    metadata = Parser().parsestr((about / "METADATA").read_text(encoding="utf-8"))
    assert {"all", *EXTRAS} <= set(metadata.get_all("Provides-Extra"))
    always = [one for one in metadata.get_all("Requires-Dist") if "extra ==" not in one]
    assert not [
        one for one in always if one.startswith(("pandas", "protobuf", "pyarrow", "pyspark", "xxhash", "pixeltable"))
    ]


def test_the_pages_of_the_console_are_there_with_all_that_they_load(installed, tmp_path):
    told = ran(
        installed, tmp_path, "-c",
        "from seriatim.console.html import environment; from importlib.resources import files; "
        "found = environment(); print(*sorted(found.list_templates())); "
        "print(*sorted(one.name for one in (files('seriatim.console') / 'static' / 'vendored').iterdir()))",
    )  # fmt: skip
    templates, vendored = (line.split() for line in told.splitlines())
    assert {"base.html", "list.html", "overview.html", "group.html"} <= set(templates)
    assert vendored == ["htmx-4.0.1.min.js", "htmx-LICENSE", "vendored.txt"]
