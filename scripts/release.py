"""Build a release and try it: `make release`, and with ``--tag`` cut the changelog and tag it.

All happens in a fresh clone of the last commit, below `build/release`. Wheel and sdist are built there, what is in them is held
against the repository, and both are installed into empty environments: of the oldest and of the newest Python that are here, with
the lowest and the newest versions of everything that seriatim needs. Each of them runs the README's quick start. In the newest one
the tests run, too: a version of a dependency that breaks something fails them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import click
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "release"
UNRELEASED = "## [Unreleased]\n"
RESOLUTIONS = ("lowest-direct", "highest")
#: Those without a wheel anywhere: they are built from their source, once for all environments.
FROM_SOURCE = ("pyspark",)
#: Time after which a step is ended: something in it hangs.
STEP_LIMIT_S = 2 * 3600
#: What only the repository needs.
NOT_PACKAGED = re.compile(r"(^|/)(\.git[a-z]*|__pycache__)(/|$)")
#: What `seriatim docs` prints, and where the wheel has it.
PAGES = ("docs/index.md", "docs/tutorials/", "docs/how-to/", "docs/reference/", "docs/explanation/")
PACKED_PAGES = "seriatim/operations/pages/"
#: A connection that was idle is asked before it is used again, by what not every version of the driver has.
AFTER_A_REST = """
import time
import seriatim as sq
from seriatim.rested import RESTED_S

with sq.MessageBox.open() as box:
    box.define(sq.Queue("rested", sq.Unordered()))
    time.sleep(RESTED_S + 0.5)
    box.define(sq.Queue("rested", sq.Unordered()))
"""


class Failed(click.ClickException):
    """What keeps this from being a release."""


def facts(root: Path) -> tuple[str, SpecifierSet, list[str]]:
    """The version, the Pythons that it is for, and all that it needs with the extra ``all``."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (of_all,) = extras["all"]
    names = of_all.partition("[")[2].rstrip("]").split(",")
    needed = [*project["dependencies"], *(one for name in names for one in extras[name])]
    return project["version"], SpecifierSet(project["requires-python"]), needed


def cut(changelog: str, version: str, date: str) -> str:
    """The changelog with the unreleased changes under a version, and nothing unreleased.

    Raises:
        Failed: nothing is unreleased, or the version has a heading already.
    """
    if f"## [{version}]" in changelog:
        raise Failed(f"CHANGELOG.md has {version} already: raise `version` in pyproject.toml")
    before, found, after = changelog.partition(UNRELEASED)
    if not found or not after.partition("\n## [")[0].strip():
        raise Failed(f"CHANGELOG.md has nothing under {UNRELEASED.strip()!r}: there is nothing to release")
    return f"{before}{UNRELEASED}\n## [{version}] - {date}\n{after}"


def files(archive: Path) -> set[str]:
    """The files in a wheel, or in a sdist without its folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return set(opened.namelist())
    with tarfile.open(archive) as opened:
        return {member.name.partition("/")[2] for member in opened if member.isfile()}


def missing(tracked: Sequence[str], wheel: set[str], sdist: set[str]) -> list[str]:
    """The files that the repository has, and that one of them lacks; both also when the other has a file that nobody tracks."""
    package = {
        name.removeprefix("src/") for name in tracked if name.startswith("src/") and not NOT_PACKAGED.search(name)
    }
    packed = package | {PACKED_PAGES + name.removeprefix("docs/") for name in tracked if name.startswith(PAGES)}
    lacking = [f"the wheel lacks {name}" for name in sorted(packed - wheel)]
    lacking += [f"the sdist lacks src/{name}" for name in sorted(package) if f"src/{name}" not in sdist]
    lacking += [
        f"the wheel has {name}, which isn't in the repository"
        for name in sorted(wheel - packed)
        if name.startswith(("seriatim/", "pyspark_seriatim/"))
    ]
    return lacking


def licences(root: Path) -> Iterator[str]:
    """What is vendored, each with its licence's file.

    Raises:
        Failed: one has none.
    """
    for listed in sorted(root.glob("src/**/vendored.txt")):
        for line in listed.read_text(encoding="utf-8").splitlines():
            if line.strip():
                name, *what = line.split()
                licence = listed.with_name(f"{name.partition('-')[0]}-LICENSE")
                if not licence.is_file():
                    raise Failed(f"{name} is vendored without a licence: {licence.relative_to(root)} is missing")
                yield f"{' '.join(what[:2])}: {licence.read_text(encoding='utf-8').strip().splitlines()[0]}"


def pythons(fits: SpecifierSet) -> dict[str, str]:
    """The oldest and the newest Python here that the version is for: what uv finds, and pyenv's; by its version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    path = os.pathsep.join([os.environ["PATH"], *map(str, sorted(pyenv.glob("versions/*/bin")))])
    words = ("uv", "python", "list", "--only-installed", "--no-python-downloads", "--output-format", "json")
    told = run(*words, PATH=path)
    found = {
        Version(one["version"]): one["path"]
        for one in json.loads(told)
        if one["implementation"] == "cpython"
        and Version(one["version"]) in fits
        and not Version(one["version"]).is_prerelease
        and Path(one["path"]).parent.name
        != "shims"  # of pyenv: it runs the version that is chosen for the folder, or none
    }
    if not found:
        raise Failed(f"no Python {fits} is here")
    return {str(version): found[version] for version in (min(found), max(found))}


def run(*words: str | Path, cwd: Path = ROOT, log: Path | None = None, **environment: str) -> str:
    """What a command prints.

    Args:
        words: the command; the first word is looked for beside this Python, too.
        cwd: the folder in which it runs.
        log: where its output goes as well.
        environment: variables in addition to those of this process.

    Raises:
        Failed: it exits with another code than 0, or not within `STEP_LIMIT_S`; with the end of its output.
    """
    beside = Path(sys.executable).parent / words[0]
    command = [str(beside if beside.exists() else words[0]), *map(str, words[1:])]
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")} | environment
    # In a session of its own: what hangs is ended with all that it has started.
    started = subprocess.Popen(
        command, cwd=cwd, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, told = started.communicate(timeout=STEP_LIMIT_S)
        how = f"exits with {started.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        printed, told = started.communicate()
        how = f"was ended after {STEP_LIMIT_S} s"
    if log is not None:
        log.write_text(printed + told, encoding="utf-8")
    if started.returncode:
        end = "\n".join((printed + told).strip().splitlines()[-30:])
        raise Failed(f"{' '.join(map(str, words))} {how}:\n{end}")
    return printed


def build(clone: Path, into: Path) -> tuple[Path, Path]:
    """Wheel and sdist; the wheel is built from the sdist, as pip does where there is no wheel."""
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", into, cwd=clone)
    (sdist,) = into.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        opened.extractall(into / "unpacked", filter="data")
    (source,) = (into / "unpacked").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", into, cwd=source)
    (wheel,) = into.glob("*.whl")
    return wheel, sdist


def build_needed(needed: Sequence[str], into: Path) -> None:
    """Build a wheel of each version that an environment takes of those without one."""
    into.mkdir()
    wanted = into / "wanted.txt"
    wanted.write_text("\n".join(one for one in needed if Requirement(one).name in FROM_SOURCE), encoding="utf-8")
    for resolution in RESOLUTIONS:
        options = ("--no-config", "--no-deps", "--no-header", "--no-annotate", "--resolution", resolution)
        versions = run("uv", "pip", "compile", *options, wanted).split()
        run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", into, *versions)


def log_of(folder: Path, step: str) -> Path:
    """Where the output of a step goes; the name of an environment begins with a version, whose points are no suffix."""
    return folder.with_name(f"{folder.name}.{step}.log")


def install(python: str, artifact: Path, resolution: str, extras: str, needed: Sequence[str], folder: Path) -> None:
    """Make an empty environment with one of them. What it `needed` is named, so that ``lowest-direct`` takes the lowest of it."""
    run("uv", "venv", "--no-config", "--no-python-downloads", "--python", python, folder)
    options = ("--no-config", "--python", folder, "--resolution", resolution, "--only-binary", ":all:")
    own_source = () if artifact.suffix == ".whl" else ("--no-binary", "seriatim")
    run(
        *("uv", "pip", "install", *options, *own_source, "--find-links", BUILD / "needed"),
        *(f"seriatim[{extras}] @ {artifact.as_uri()}", *needed),
        log=log_of(folder, "install"),
    )


def quick_start(folder: Path, readme: str) -> None:
    """Do what the README has a newcomer do, in an environment."""
    work = folder / "work"
    work.mkdir()
    python, seriatim = folder / "bin" / "python", folder / "bin" / "seriatim"
    (ten_lines,) = re.findall(r"## Ten lines\n\n```python\n(.*?)```", readme, re.DOTALL)
    run(python, "-c", ten_lines, cwd=work)
    run(python, "-c", AFTER_A_REST, cwd=work)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    run(seriatim, "demo", cwd=work, log=log_of(folder, "demo"), PATH=path)
    run(seriatim, "init", "shop", cwd=work, PATH=path)
    for words in (("check", "pipeline.yaml"), ("run", "--once", "pipeline.yaml"), ("doctor",)):
        run(seriatim, *words, cwd=work / "shop", log=log_of(folder, words[0]), PATH=path)


def check_clean() -> None:
    """Refuse what differs from the last commit.

    Raises:
        Failed: something does.
    """
    if changed := run("git", "status", "--porcelain"):
        raise Failed(f"commit first, a release is built from a commit:\n{changed}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--tag", is_flag=True, help="At the end cut the changelog, commit it, and tag the commit.")
@click.option("--suite/--no-suite", default=True, help="Run the tests of `make test` with the newest dependencies.")
def main(*, tag: bool, suite: bool) -> None:
    """Build a release from the last commit, and try it in empty environments. It is in build/release then.

    Takes half an hour with the tests, and ten minutes without.
    """
    check_clean()
    version, fits, needed = facts(ROOT)
    cut_changelog = cut((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version, f"{datetime.now(UTC):%Y-%m-%d}")
    if run("git", "tag", "--list", f"v{version}"):
        raise Failed(f"the tag v{version} is there already: raise `version` in pyproject.toml")
    shutil.rmtree(BUILD, ignore_errors=True)
    clone = BUILD / "clone"
    run("git", "clone", "--quiet", ROOT, clone)
    (clone / "CHANGELOG.md").write_text(cut_changelog, encoding="utf-8")
    wheel, sdist = build(clone, BUILD)
    tracked = run("git", "ls-files", cwd=clone).splitlines()
    if lacking := missing(tracked, files(wheel), files(sdist)):
        raise Failed("\n".join(lacking))
    for artifact in (wheel, sdist):
        click.echo(f"{artifact.name}: {artifact.stat().st_size / 2**20:.1f} MiB, {len(files(artifact)):,} files")
    for line in licences(clone):
        click.echo(f"vendored: {line}")
    readme = (clone / "README.md").read_text(encoding="utf-8")
    build_needed(needed, BUILD / "needed")
    ways = [*product(pythons(fits).items(), RESOLUTIONS, (wheel, sdist))]
    for number, ((python, path), resolution, artifact) in enumerate(ways, 1):
        name = f"{python}-{resolution}-{'wheel' if artifact is wheel else 'sdist'}"
        click.echo(f"{number} of {len(ways)}: {name} …")
        install(path, artifact, resolution, "all", needed, BUILD / name)
        quick_start(BUILD / name, readme)
    if suite:
        click.echo("the tests of `make test` with the newest dependencies …")
        folder = BUILD / "suite"
        install(ways[-1][0][1], wheel, "highest", "all,test", needed, folder)
        words = (
            folder / "bin" / "python",
            "-m",
            "pytest",
            "-n",
            "2",
            "-q",
            "-m",
            "not dear or telling",
            "-p",
            "no:cacheprovider",
        )
        run(*words, cwd=clone, log=BUILD / "suite.log", SERIATIM_SIZE="small")
    if tag:
        (ROOT / "CHANGELOG.md").write_text(cut_changelog, encoding="utf-8")
        run("git", "commit", "--quiet", "--message", f"Release {version}", "CHANGELOG.md")
        run("git", "tag", "--annotate", f"v{version}", "--message", f"seriatim {version}")
    click.echo(
        f"{version} is good: {wheel.relative_to(ROOT)}, {sdist.relative_to(ROOT)}"
        + (f"; tagged v{version}" if tag else "")
    )


if __name__ == "__main__":
    main()
