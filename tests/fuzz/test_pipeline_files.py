"""Pipeline files and box files that something went wrong with: `check` tells it with file and line, and always ends."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.errors import DeclarationError
from seriatim.pipeline.files import box_file, pipeline_file
from tests import soak
from tests.pipeline.files.test_box_file import FULL as BOX
from tests.pipeline.files.test_pipeline_file import FULL, SMALL

OTHER = """\
name: other
clock: event
time: at
watermark: 5m
unrouted: lost
receive:
  - location: xml
    source: {format: xml, path: inbox}
    namespaces: {o: "urn:orders"}
    promote: {key: /order/o:key, at: {path: "//at", type: timestamp}, n: {path: count(//line), type: long}}
  - location: json
    source: {format: json, path: inbox}
    split: $.lines
    promote: {key: "$['the key']", at: {path: "$.at[0]", type: timestamp}, n: {path: $.n, type: long}}
process: {function: work:apply, returns: {margin: double}}
route:
  - to: best
    where: "key LIKE 'a%' AND n IN (1, 2) OR at > TIMESTAMP '2026-01-31'"
    process: {function: work:apply}
    resequence: {policy: best_effort, group: key, sequence: n, window: 10s, buffer: 0.5}
    deliver: {format: csv, path: out/best}
  - to: sets
    resequence: {policy: unit_of_work, group: key, sequence: n, last: "n = 3", timeout: 1h}
    deliver: {queue: sets}
"""
ODD = [
    *["", "null", "~", "true", "0", "-1", "1.5", "1e999", ".inf", ".nan", "9" * 5_000, "0x" + "f" * 5_000, "0o7", "2026-01-31", "12:30:45"],
    *["[]", "{}", "[[]]", "{a: {b: []}}", "[a, b, a]", "{a: 1, a: 2}", "? a", "- a", "&x a", "*x", "!!int a", "!!binary ====", "!x a", "!!set {a}", "!!omap [a]", "<<", "|", ">", "|2-", "%", "@", "`", "'", '"', "''"],
    *["$.a[0]", "$", "$.", "$..a", "//a[", "//a[1 div 0]", "count(", "/o:a", "work:apply", "work:", "no:such", "os:system", "a/b/../..", "/", "..", "*", "${A}", "${", "$${A}", "${NO}"],
    *["decimal(12,2)", "decimal(99,2)", "decimal(1,2", "long", "5m", "1000000000000d", "-5s", "1e5s", "a = 1", "IN", "key = 'x' AND", "NOT " * 50, "(" * 50, "key LIKE '%'"],
    *["é", "😀", "\u00a0", "\u2028", "\\", "\\0", '"\\0"', '"\\ud800"', "a: b", "a #b", "x" * 300, "name", "type", "location", "ticket", "epoch", "seriatim"],
]  # fmt: skip
RAW = ["\0", "\t", "\r", "\x07", "\x85", "\ufeff", "\ufffe", "\u2029", "---", "...", "\n", "  ", ":", "-", "{", "}", "[", "]", ",", "#", "&a ", "*a", "!", "\n\n", "? ", "%YAML 1.1\n"]  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inbox").mkdir()
    (tmp_path / "first.csv").write_text("customer,number\nc1,7\n")
    (tmp_path / "order.json").write_text('{"type": "object"}')
    (tmp_path / "work.py").write_text("def apply(messages): return messages\ndef promoted(body): return {}\n")


def mutations(text: str, chance: random.Random) -> Iterator[str]:
    """A text with values, words, characters and lines exchanged."""
    while True:
        changed = text
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            changed = chance.choice([_value, _value, _value, _name, _line, _character])(changed, chance)
        yield changed


def _value(text: str, chance: random.Random) -> str:
    places = list(re.finditer(r"(?<=: )[^,{}\n]+|(?<=- )[^\n]+|\"[^\"\n]*\"|\{[^{}\n]*\}", text))
    return _exchanged(text, chance.choice(places), chance.choice(ODD)) if places else text


def _name(text: str, chance: random.Random) -> str:
    places = list(re.finditer(r"[\w.$]+", text))
    if not places:
        return text
    return _exchanged(text, chance.choice(places), chance.choice([chance.choice(places)[0], chance.choice(ODD)]))


def _line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = " " * chance.randrange(6) + lines[at].lstrip()
        case _:
            lines = lines[:at]
    return "\n".join(lines)


def _character(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(["", *RAW, chr(chance.randrange(1, 256))]) + text[at + chance.randrange(3) :]


def _exchanged(text: str, found: re.Match[str], new: str) -> str:
    return text[: found.start()] + new + text[found.end() :]


def placed(fault: str) -> bool:
    return re.match(r"some\.yaml:[1-9]\d*:[1-9]\d*: ", fault) is not None


#: What is wrong with a file as a whole has no line.
WHOLE = ("the file is empty",)


@pytest.mark.parametrize(
    ("valid", "examine"),
    [
        ([SMALL, FULL, OTHER], lambda path: pipeline_file.examine(path, {"A": "secret"})[1]),
        ([BOX], lambda path: box_file.examine(path, {"A": "secret"})[1]),
    ],
    ids=["pipeline", "box"],
)
@pytest.mark.soak
def test_every_fault_has_a_line(valid: list[str], examine: Callable[[Path], list[DeclarationError]]) -> None:
    chance = random.Random(soak.seed())
    path = Path("some.yaml")
    wrong: list[str] = []
    for text in valid:
        path.write_text(text, encoding="utf-8")
        assert examine(path) == []
        for changed, _ in zip(mutations(text, chance), range(soak.sized(4_000, 80, 20)), strict=False):
            path.write_bytes(changed.encode(errors="surrogatepass"))
            try:
                told = {str(fault): fault.what for fault in examine(path)}
                wrong += [
                    f"{changed!r}: {fault}" for fault, what in told.items() if not placed(fault) and what not in WHOLE
                ]
            except Exception as error:  # noqa: BLE001 - of any kind is what this looks for
                wrong.append(f"{changed!r}: {error!r}")
    assert not wrong, f"{len(wrong)}: {wrong[:3]}"


@pytest.mark.soak
def test_the_command_ends_with_faults_or_without() -> None:
    chance = random.Random(soak.seed())
    path = Path("some.yaml")
    for text in (SMALL, FULL, OTHER):
        for changed, _ in zip(mutations(text, chance), range(soak.sized(1_000, 20)), strict=False):
            path.write_bytes(changed.encode(errors="surrogatepass"))
            result = CliRunner().invoke(main, ["check", str(path)])
            assert result.exit_code in {0, 2}, (changed, result.output)
            assert result.exception is None or isinstance(result.exception, SystemExit), (changed, result.exception)
