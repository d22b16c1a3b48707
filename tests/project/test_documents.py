"""What there is, is documented; what is documented, is there."""

from __future__ import annotations

import configparser
import importlib
import inspect
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from seriatim import errors
from seriatim.cli.main import EXIT_CODES, main
from seriatim.kernel.groups.policy import BestEffort, Fifo, Standard, UnitOfWork, Unordered
from seriatim.runtime.stop_signal import PATIENCE_S

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
DOCUMENTS = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))


def reference(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def commands(group: click.Group = main) -> list[tuple[str, click.Command]]:
    """The commands, those of a group with its name before theirs."""
    context = click.Context(group)
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    flat = []
    for name, command in found:
        if isinstance(command, click.Group):
            flat += [(f"{name} {inner}", one) for inner, one in commands(command)]
        elif command is not None:
            flat.append((name, command))
    return flat


def test_every_command_and_option_is_documented():
    found = (re.match(r"`seriatim ([a-z-]+(?: [a-z-]+)?)", part) for part in reference("cli.md").split("\n## "))
    sections = {part[1]: part.string for part in found if part is not None}
    assert sorted(sections) == sorted(name for name, _ in commands())
    for name, command in commands():
        for parameter in command.params:
            for option in parameter.opts if isinstance(parameter, click.Option) else ():
                assert f"`{option}" in sections[name], f"{name} {option}"


def test_no_option_is_documented_that_is_not_there():
    known = {option for _, command in commands() for parameter in command.params for option in parameter.opts}
    known |= {"--version", "--help"}
    assert set(re.findall(r"`(--[a-z-]+)", reference("cli.md"))) <= known


def tree(kind: type[errors.SeriatimError]) -> set[type[errors.SeriatimError]]:
    return {kind}.union(*(tree(below) for below in kind.__subclasses__()))


def test_every_error_code_is_documented():
    text = reference("errors.md")
    rows = dict(re.findall(r"^\| `([A-Za-z]+)` \| `([a-z-]+)` \|", text, re.MULTILINE))
    assert rows == {name: getattr(errors, name).code for name in errors.__all__}
    assert {kind.__name__ for kind in tree(errors.SeriatimError) if kind.__module__ == "seriatim.errors"} == set(
        errors.__all__
    )


def test_a_class_of_errors_without_a_code_has_that_of_its_base():
    class OfAnApplication(errors.Transient):
        pass

    class Named(errors.Transient, code="ours"):
        pass

    assert (OfAnApplication("gone").code, Named("gone").code) == ("transient", "ours")
    assert (errors.Transient.code, errors.MissingExtra.code) == ("transient", "missing-extra")


def test_every_exit_code_is_documented():
    text = reference("cli.md")
    for kind, code in EXIT_CODES.items():
        assert re.search(rf"^\| {code} \|.*`{kind.__name__}`", text, re.MULTILINE)


@pytest.mark.parametrize("policy", [BestEffort, Fifo, Standard, UnitOfWork, Unordered])
def test_every_policy_and_parameter_is_documented(policy):
    text = reference("pipeline-file.md")
    assert f"`{policy.name}`" in text
    for parameter in policy.__dataclass_fields__:
        assert f"`{parameter}`" in text, parameter


def test_every_key_of_a_pipeline_file_is_documented():
    text = reference("pipeline-file.md")
    asked = re.compile(
        r"(?:section|location|start_from|port|inner|pipeline)\.(?:text|choice|whole|duration_s|plain|section|sections|options)\(\"(\w+)\""
    )
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/seriatim/pipeline").rglob("*.py"))
    keys = set(asked.findall(source))
    assert len(keys) > 20
    for key in keys:
        assert f"`{key}`" in text, key


def test_every_dependency_has_a_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    wanted = project["dependencies"] + [one for extra in project["optional-dependencies"].values() for one in extra]
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)[0]
        assert f"`{name}`" in architecture, name


def test_everything_installed_is_pinned_without_an_address():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line)] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + [one for extra in project["optional-dependencies"].values() for one in extra]
    pinned = {line.split("==")[0].lower() for line in lines}
    assert {re.match(r"[A-Za-z0-9._-]+", one)[0].lower() for one in wanted} - {"seriatim"} <= pinned


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def command_lines() -> list[tuple[str, str]]:
    """What the documents show to be typed, or started by systemd, or name in a sentence, with the document."""
    shown = re.compile(r"^(?:\$ |ExecStart=)(?:.*&& )?(?:\S+/)?seriatim (.+)$|`seriatim ([^`\n]+)`", re.MULTILINE)
    # What was decided, and what has changed, is told in the words of that time.
    present = [one for one in DOCUMENTS if one.parent.name != "decisions" and one.name != "CHANGELOG.md"]
    texts = {document: re.sub(r"\\\n\s*", "", document.read_text(encoding="utf-8")) for document in present}
    return [
        (str(name.relative_to(ROOT)), typed or named)
        for name, text in texts.items()
        for typed, named in shown.findall(text)
    ]


def test_every_command_line_in_the_documents_is_one():
    lines = command_lines()
    assert len(lines) > 500
    for document, line in lines:
        words = shlex.split(re.split(r" [#|>] ?| && ", line)[0].replace("…", ""))
        command: click.Command = main
        while isinstance(command, click.Group) and words and not words[0].startswith("-") and not words[0].isupper():
            context = click.Context(command)
            _, found, words = command.resolve_command(context, [words[0].partition("|")[0], *words[1:]])
            assert found is not None, (document, line)
            command = found
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= known, (document, line)


def test_the_unit_of_the_how_to_starts_again_where_that_helps():
    text = (ROOT / "docs" / "how-to" / "run-it-for-good.md").read_text(encoding="utf-8")
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read_string(re.search(r"```ini\n(.*?)```", text, re.DOTALL)[1])
    service = unit["Service"]
    in_vain = {EXIT_CODES[errors.UsageError], EXIT_CODES[errors.InvariantBroken]}
    assert set(map(int, service["RestartPreventExitStatus"].split())) == in_vain
    # Spark's process ignores SIGTERM, and the command ends it; that may take as long as a batch that is waited for.
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > 2 * PATIENCE_S


def test_every_page_is_in_the_map_of_all_pages():
    index = ROOT / "docs" / "index.md"
    targets = re.findall(r"\]\(([^)#\s]+)", index.read_text(encoding="utf-8"))
    linked = {(index.parent / target).resolve() for target in targets}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - linked - {index}) == []


def test_the_commands_of_the_how_to_about_groups_are_run_in_it():
    text = (ROOT / "docs" / "how-to" / "mend-a-group.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\$ (seriatim .*)$", text, re.MULTILINE))
    ran = {found for _, found in re.findall(r"""run\((["'])(seriatim .*?)\1\)""", text)}
    assert shown
    assert shown == ran


@pytest.mark.parametrize(
    "name",
    [
        "bulk",
        "bulk_operations",
        "dead_letters",
        "dialogs",
        "faults",
        "groups",
        "instances",
        "invariants",
        "messages",
        "queues",
        "retention",
        "set_aside",
        "subscriptions",
        "trace",
        "workers",
    ],
)
def test_every_operation_is_documented(name):
    module = importlib.import_module(f"seriatim.operations.{name}")
    (section,) = re.findall(rf"^## `{name}`\n(.*?)(?=^## |\Z)", reference("operations.md"), re.MULTILINE | re.DOTALL)
    known = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", section))))
    assert set(module.__all__) - known == set()
    for one in re.findall(r"`(\w+)\(box", section):
        assert inspect.signature(getattr(module, one)).parameters.keys() - known == set(), one
