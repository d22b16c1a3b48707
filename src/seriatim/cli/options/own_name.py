"""How this command was started, for commands that a user pastes."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

_NAME = "seriatim"


def own_name(*, absolute: bool = False) -> str:
    """What to type for this command: ``seriatim``, ``.venv/bin/seriatim`` or ``python -m seriatim``, as it was started."""
    started = Path(sys.argv[0] or _NAME)
    if started.name == "__main__.py" and started.parent.name == _NAME:
        found = shutil.which("python")
        python = "python" if found and os.path.realpath(found) == os.path.realpath(sys.executable) else sys.executable
        return f"{shlex.quote(python)} -m {_NAME}"
    if started.name != _NAME or not started.exists():
        return _NAME  # a test, or another program that calls ours
    found = shutil.which(_NAME)
    in_path = found is not None and os.path.realpath(found) == os.path.realpath(started)
    return _NAME if in_path else shlex.quote(str(started.absolute() if absolute else started))
