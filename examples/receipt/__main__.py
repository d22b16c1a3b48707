"""Replays the log through the pipeline and says what is left out of order.

    python -m examples.receipt LOG [--folder build/examples/receipt] [--pictures FOLDER]

LOG is the "receipt phase" log of an environmental permit application process as CSV. Written are, in the folder: the
feed (``inbox/``), what was delivered (``out/``), and two pictures. The outcome is compared with ``outcome.json``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from examples.receipt import feed, plots
from examples.receipt.measure import measure, table
from examples.receipt.rounds import WINDOWS, behind, leave

HERE = Path(__file__).parent


def run(log: Path, folder: Path) -> None:
    """Write the feed into an empty folder and run the pipeline on it."""
    shutil.rmtree(folder, ignore_errors=True)
    feed.write(feed.read(log), folder / "inbox")
    words = [sys.executable, "-m", "seriatim", "run", str(HERE / "pipeline.yaml"), "--finish"]
    subprocess.run(words, cwd=folder, check=True)


def main() -> None:
    """The command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("log", type=Path)
    options.add_argument("--folder", type=Path, default=HERE.parents[1] / "build/examples/receipt")
    options.add_argument("--pictures", type=Path, help="where the pictures go; default: the folder")
    given = options.parse_args()
    folder = given.folder.absolute()
    run(given.log, folder)
    measured = measure(folder)
    print(table(measured))
    events = feed.read(given.log)
    left = {name: leave(events, window) for name, window in WINDOWS.items()}
    pictures = given.pictures or folder
    plots.draw_lateness(behind(events), pictures / "receipt-lateness.svg")
    inversions = {name: one.inversions for name, one in measured.items()}
    waited = {name: [one.waited for one in ones] for name, ones in left.items()}
    plots.draw_windows(inversions, waited, pictures / "receipt-windows.svg")
    print(f"The output and the pictures are in {folder}")
    found = {name: asdict(one) for name, one in measured.items()}
    if found != json.loads((HERE / "outcome.json").read_text()):
        print(f"It is not what outcome.json says, but:\n{json.dumps(found, indent=1)}")
        sys.exit(1)
    print("It is what outcome.json says.")


if __name__ == "__main__":
    main()
