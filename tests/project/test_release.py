"""`make release`: what it refuses before it builds, and that it sees what is missing in what it built."""

from __future__ import annotations

import runpy
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts" / "release.py"))


def test_the_changelog_is_cut(script):
    text = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n* A thing.\n\n## [0.1.0] - 2026-01-01\n\n* First.\n"
    cut = script["cut"](text, "0.2.0", "2026-02-03")
    assert cut == text.replace("## [Unreleased]\n", "## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n")
    with pytest.raises(click.ClickException, match=r"has 0\.1\.0 already"):
        script["cut"](text, "0.1.0", "2026-02-03")
    with pytest.raises(click.ClickException, match="nothing to release"):
        script["cut"](text.replace("### Added\n\n* A thing.\n", ""), "0.2.0", "2026-02-03")


def test_the_version_of_the_repository_can_be_released(script):
    version, fits, needed = script["facts"](ROOT)
    assert version in script["cut"]((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version, "2026-01-01")
    assert "3.11" in fits
    assert "3.10" not in fits
    assert {"click>=8.1", "pyarrow>=18"} <= set(needed)
    assert not any(one.startswith("pytest") for one in needed)


def test_the_pythons_that_it_tries_run(script):
    pytest.importorskip("uv", reason="uv isn't installed (scripts/set-up release)")
    _, fits, _ = script["facts"](ROOT)
    for version, path in script["pythons"](fits).items():
        assert script["run"](path, "-c", "import platform; print(platform.python_version())").strip() == version


def test_a_step_that_hangs_is_ended_with_all_that_it_started(script, monkeypatch):
    monkeypatch.setitem(script["run"].__globals__, "STEP_LIMIT_S", 1)
    # A child that lives on would keep the output open, and this call with it.
    waits = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'])"
    with pytest.raises(click.ClickException, match="was ended after 1 s"):
        script["run"]("python", "-c", waits)


def test_each_environment_has_logs_of_its_own(script):
    names = ("3.13.0-highest-wheel", "3.13.0-lowest-direct-sdist")
    assert len({script["log_of"](Path(name), "demo") for name in names}) == 2


def test_a_file_that_one_of_them_lacks_is_named(script):
    tracked = ["src/seriatim/a.py", "src/seriatim/box/b.sql", "src/seriatim/.gitignore", "README.md", "docs/index.md"]
    tracked += ["docs/how-to/c.md", "docs/decisions/0001-d.md"]
    wheel = {"seriatim/a.py", "seriatim/old.py", "seriatim/operations/pages/index.md", "seriatim-1.dist-info/METADATA"}
    assert script["missing"](tracked, wheel, {"src/seriatim/box/b.sql"}) == [
        "the wheel lacks seriatim/box/b.sql",
        "the wheel lacks seriatim/operations/pages/how-to/c.md",
        "the sdist lacks src/seriatim/a.py",
        "the wheel has seriatim/old.py, which isn't in the repository",
    ]


def test_what_is_vendored_has_its_licence(script, tmp_path):
    assert [line.partition(":")[0] for line in script["licences"](ROOT)] == ["htmx.org 4.0.1"]
    folder = tmp_path / "src" / "static"
    folder.mkdir(parents=True)
    (folder / "vendored.txt").write_text("thing-1.js thing 1.0 abc\n")
    with pytest.raises(click.ClickException, match="vendored without a licence: src/static/thing-LICENSE"):
        list(script["licences"](tmp_path))
