"""The page about tests of handlers: its files are written, and pytest runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import environment

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-your-handlers.md"


@pytest.mark.proves("the files of the page about tests pass as they stand")
def test_its_code_runs(tmp_path, postgresql):
    files = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(files) == PAGE.read_text(encoding="utf-8").count("```python")
    for name, code in files:
        (tmp_path / name).write_text(code)
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path, env=environment() | {"SERIATIM_TEST_DSN": postgresql, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    assert "4 passed" in found.stdout
