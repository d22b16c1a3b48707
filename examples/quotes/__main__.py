"""A pipeline asks a service, and goes on with its answers in order.

python -m examples.quotes [DSN]
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import seriatim as sq
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.testing import work_off

HERE = Path(__file__).parent
DEFINITIONS = (
    sq.Contract("Pricing", {"Question": "initiator", "Quote": "target"}),
    sq.Service("Shop", queue="shop"),
    sq.Service("Pricing", queue="pricing", contracts=["Pricing"]),
)
#: Two customers fill their carts; the messages come in the wrong order, over two feeds.
CARTS = (
    [("ada", 2, "pear"), ("bob", 1, "plum"), ("ada", 1, "apple")],
    [("bob", 3, "apple"), ("ada", 3, "plum"), ("bob", 2, "pear")],
)
PRICES = {"apple": 50, "pear": 70, "plum": 30}


def price(message: sq.Received, tx: sq.Session) -> None:
    """Answer a question in its dialog."""
    if message.type == "Question" and message.dialog is not None:
        asked = json.loads(message.body)
        tx.send(message.dialog.handle, "Quote", json.dumps({**asked, "price": PRICES[asked["sku"]]}).encode())


def main(box: sq.MessageBox, folder: Path) -> dict[str, list[tuple[str, int]]]:
    """Feed the pipeline; return what leaves it, by customer and in order: the article and its price."""
    box.define(*DEFINITIONS)
    (folder / "inbox").mkdir()
    file = folder / "pipeline.yaml"
    file.write_text((HERE / "pipeline.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        pipeline = load(file, {"QUOTES_DSN": box.dsn, "QUOTES_SCHEMA": box.schema})
        for number, carts in enumerate(CARTS):
            lines = [json.dumps({"customer": who, "version": version, "sku": sku}) for who, version, sku in carts]
            Path(f"inbox/{number}.json").write_text("\n".join(lines), encoding="utf-8")
            run(pipeline, once=True)  # the pipeline asks …
            work_off(box, "pricing", price)  # … the service answers, whenever it comes to that …
        run(pipeline, once=True)  # … and the pipeline goes on with what it was answered
        return quotes(Path("out"))
    finally:
        os.chdir(before)


def quotes(folder: Path) -> dict[str, list[tuple[str, int]]]:
    """What left, by customer."""
    found: dict[str, list[tuple[str, int]]] = {}
    for file in sorted(folder.glob("batch=*/*")):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            quote: Mapping[str, str] = json.loads(row["body"])
            found.setdefault(quote["customer"], []).append((quote["sku"], int(quote["price"])))
    return found


if __name__ == "__main__":
    with suppress(KeyboardInterrupt), TemporaryDirectory() as place, sq.MessageBox.open(*sys.argv[1:2]) as opened:
        for customer, given in main(opened, Path(place)).items():
            print(f"{customer}: {', '.join(f'{sku} {cents}' for sku, cents in given)}")
