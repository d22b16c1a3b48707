"""A recorded feed of order books, scrambled: every book comes back in order, message by message."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from examples.kraken.scramble import read
from pyarrow import dataset

from seriatim.cli.main import main

EXAMPLE = Path(__file__).parents[2] / "examples/kraken"


@pytest.fixture(scope="module")
def recording(shared: Path) -> dict[str, dict[int, str]]:
    """Of each book the text of every update, by number, as the exchange sent them: in order, without holes."""
    updates, first = read(shared / "data/KRAKEN_FUTURES.ws.1.0")
    books: dict[str, dict[int, str]] = defaultdict(dict)
    for text in updates:
        update = json.loads(text)
        books[update["product_id"]][update["seq"]] = text
    assert len(books) == 10
    for product, book in books.items():
        assert list(book) == list(range(first[product], first[product] + len(book)))
    assert sum(map(len, books.values())) == len(updates)
    return dict(books)


def scrambled(shared: Path, folder: Path) -> dict[str, str]:
    """Scramble the recording with the example's script; the text of each line of the inbox by its message id."""
    script = [sys.executable, EXAMPLE / "scramble.py", shared / "data/KRAKEN_FUTURES.ws.1.0", folder, "--seed", "11"]
    subprocess.run(script, check=True, capture_output=True)
    return {
        f"kraken/{file.name}:{line}": text
        for file in sorted((folder / "inbox").iterdir())
        for line, text in enumerate(file.read_text().splitlines(), start=1)
    }


def run(how: str) -> dict[str, Any]:
    """The account of a run of the example's pipeline in the present folder."""
    done = CliRunner().invoke(main, ["run", str(EXAMPLE / "pipeline.yaml"), how, "--json"])
    assert done.exit_code == 0, done.output
    (account,) = json.loads(done.stdout.splitlines()[-1])["accounts"]
    return account


def files(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder of batches, in order of delivery."""
    paths = sorted(dataset.dataset(folder, format="json").files)
    return [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]


def test_a_scrambled_feed_is_put_in_order(
    shared: Path, recording: dict[str, dict[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = scrambled(shared, tmp_path)
    total = sum(map(len, recording.values()))
    times = Counter(lines.values())
    dropped = {
        (product, n): text for product, book in recording.items() for n, text in book.items() if text not in times
    }
    first = {text: message for message, text in reversed(lines.items())}
    repeated = {message: text for message, text in lines.items() if message != first[text]}
    assert len(dropped) == len(repeated) == round(total / 100)
    arrived = defaultdict(list)
    for text in lines.values():
        update = json.loads(text)
        arrived[update["product_id"]].append(update["seq"])
    assert all(numbers != sorted(numbers) for numbers in arrived.values())

    account = run("--finish")

    books = defaultdict(list)
    for row in files(tmp_path / "out/books"):
        books[row["group"]].append((row["ordinal"], row["seq"], row["body"]))
        assert lines[row["message_id"]] == row["body"]
        assert not row["late"]
    wanted = {
        product: [(n, text) for n, text in book.items() if (product, n) not in dropped]
        for product, book in recording.items()
    }
    assert {product: [(n, text) for _, n, text in rows] for product, rows in books.items()} == wanted
    assert all([ordinal for ordinal, _, _ in rows] == list(range(1, len(rows) + 1)) for rows in books.values())
    aside = files(tmp_path / ".seriatim/pipelines/kraken/set-aside")
    assert {row["message_id"]: row["body"] for row in aside} == repeated
    assert {(row["disposition"], row["reason"]) for row in aside} == {("duplicate", "its number was taken in before")}
    assert (account["arrived"], account["released"]) == (len(lines), total - len(dropped))
    assert (account["duplicate"], account["held"], account["invalid"], account["late"]) == (len(repeated), 0, 0, 0)

    # What was skipped shows when it comes after all: late if something had left behind it; else its book goes on.
    (tmp_path / "inbox/afterwards.json").write_text("".join(f"{text}\n" for text in dropped.values()))
    run("--once")
    last = {product: rows[-1][1] for product, rows in books.items()}
    late = {text for (product, n), text in dropped.items() if n < last[product]}
    now = files(tmp_path / ".seriatim/pipelines/kraken/set-aside")
    assert {row["body"] for row in now if row["disposition"] == "late"} == late
    assert {row["reason"] for row in now if row["disposition"] == "late"} == {"its number was skipped before"}
    assert Counter(row["disposition"] for row in now) == {"late": len(late), "duplicate": len(repeated)}
    released = [row["body"] for row in files(tmp_path / "out/books")][total - len(dropped) :]
    assert sorted(released) == sorted(set(dropped.values()) - late)
