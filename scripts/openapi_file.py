"""Write the operations over HTTP as a document of OpenAPI: ``python -m scripts.openapi_file``."""

from __future__ import annotations

from pathlib import Path

from seriatim.http.openapi import document

FILE = Path(__file__).parents[1] / "docs" / "reference" / "openapi.json"

if __name__ == "__main__":
    FILE.write_bytes(document())
