"""What the container files and the page about them say fits the commands, the project of `seriatim init`, and one another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from seriatim.cli.main import main
from seriatim.pipeline.declared.work_limits import Limits, Pace
from seriatim.runtime.stop_signal import PATIENCE_S

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "src" / "seriatim" / "cli" / "project"
PAGE = (ROOT / "docs" / "how-to" / "containers.md").read_text(encoding="utf-8")
MANIFESTS = [YAML(typ="safe").load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
COMPOSE = YAML(typ="safe").load(ROOT / "compose.yaml")
#: What the supervisor waits beyond a turn, and some more for the end of the process.
BEYOND_A_TURN_S, BEYOND_A_BATCH_S = 10, 20


def pods() -> Iterator[dict[str, Any]]:
    for manifest in MANIFESTS:
        yield manifest["spec"]["template"]["spec"]


def commands() -> Iterator[list[str]]:
    for service in COMPOSE["services"].values():
        if "command" in service:
            yield service["command"]
    for pod in pods():
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            yield container["args"]


def grace_periods() -> Iterator[tuple[list[str], int]]:
    for service in COMPOSE["services"].values():
        if service.get("command", [""])[0] in ("work", "run"):
            yield service["command"], int(service["stop_grace_period"].removesuffix("s"))
    for pod in pods():
        if "terminationGracePeriodSeconds" in pod:
            yield pod["containers"][0]["args"], pod["terminationGracePeriodSeconds"]


def checked(words: list[str]) -> None:
    """Parse a command as `seriatim` does, without running it."""
    group: click.Group = main
    context = click.Context(main, info_name="seriatim")
    while True:
        name, *words = words
        command = group.get_command(context, name)
        assert command is not None, name
        context = click.Context(command, parent=context, info_name=name)
        if not isinstance(command, click.Group):
            break
        group = command
    command.parse_args(context, words)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_each_command_is_one(words):
    checked(list(words))
    for file in [word for word in words if word.endswith(".yaml")]:
        assert (TEMPLATES / file).is_file(), file
    for handler in [word for word in words if ":" in word]:
        module, _, function = handler.partition(":")
        assert f"def {function}(" in (TEMPLATES / f"{module}.py").read_text()


def test_grace_periods_last_as_long_as_a_stop_may():
    found = list(grace_periods())
    assert [words[0] for words, _ in found] == ["work", "run", "work", "run"]
    for words, seconds in found:
        given = words[words.index("--turn-limit") + 1] if "--turn-limit" in words else None
        turn_s = Limits(pace=Pace(turn_limit=given)).turn_limit_s
        assert seconds >= (PATIENCE_S + BEYOND_A_BATCH_S if words[0] == "run" else turn_s + BEYOND_A_TURN_S), words


def test_the_image_is_built_from_what_is_there():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [word for line in re.findall(r"^COPY (?!--)(.+)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert copied == ["pyproject.toml", "README.md", "LICENSE", "constraints.txt", "src"]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    stages = dict(re.findall(r"^FROM (\S+) AS (\w+)$", text, re.MULTILINE))
    targets = {service["build"]["target"] for service in COMPOSE["services"].values() if "build" in service}
    assert targets <= set(stages.values())
    assert targets == set(re.findall(r"`seriatim:(\w+)`", PAGE))
