"""What applications import of the runtime is where the documents say."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

DOCUMENTS = Path(__file__).parents[2] / "docs/reference"


def test_what_the_reference_names_is_there():
    texts = [page.read_text(encoding="utf-8") for page in sorted(DOCUMENTS.glob("*.md"))]
    named = {found for text in texts for found in re.findall(r"`(seriatim\.(?:runtime|spark)\.[\w.]+)", text)}
    assert len(named) > 5
    for module, _, name in (one.rpartition(".") for one in named):
        assert callable(getattr(importlib.import_module(module), name)), name
