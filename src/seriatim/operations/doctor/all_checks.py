"""Run the checks: of the machine first, then of its message box."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seriatim.errors import SeriatimError
from seriatim.extras import installation, is_chosen
from seriatim.operations.doctor import machine_checks as machine
from seriatim.operations.doctor.finding import PAGE, Finding, State

if TYPE_CHECKING:
    from seriatim.box.box import MessageBox

_FOLDER = Path(".seriatim")


def examine(
    folder: Path = _FOLDER,
    dsn: str | None = None,
    schema: str = "seriatim",
    *,
    pipelines: bool = False,
    audit: bool = False,
) -> Iterator[Finding]:
    """Run all checks, the cheap checks first.

    Args:
        folder: the folder for checkpoints.
        dsn: the DSN of the message box, as in `MessageBox.open`.
        schema: the schema of the box.
        pipelines: start Spark, too, unless one of its requirements is wrong; that can take a minute.
        audit: check the laws of the box to the end, however large it is.
    """
    has_spark = is_chosen("spark")
    needed = [*machine.requirements(), *([_tried("java", machine.java)] if has_spark else [])]
    yield from needed
    if has_spark:
        yield machine.memory()
    yield machine.writable(folder)
    yield machine.disk(folder)
    if has_spark:
        yield _with_page(_tried("ports", partial(machine.ports, folder)))
    yield from findings_at(dsn, schema, audit=audit)
    if not pipelines:
        return
    if not has_spark:
        yield Finding("spark", State.WRONG, "not installed", installation("spark"))
    elif any(finding.state is State.WRONG for finding in needed):
        yield Finding("spark", State.WRONG, "not tried", "mend what is above first")
    else:
        yield from machine.spark()


def _tried(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except SeriatimError as error:
        found = f"{error.what} ({error.where})" if error.where else error.what
        return Finding(name, State.WRONG, found, error.remedy)
    except ImportError as error:
        return Finding(name, State.WRONG, f"not tried: {error}", "mend what is above first")


def is_project() -> bool:
    """Whether pipelines have run in this folder, or a box was there: what there is to look at isn't elsewhere."""
    return _FOLDER.exists()


def findings_at(dsn: str | None, schema: str, *, audit: bool = False) -> Iterator[Finding]:
    """Check the message box at an address, if there is one: none is made, and the embedded PostgreSQL is started only for one."""
    from seriatim.operations.box_here import is_here  # noqa: PLC0415 -- the driver, when it is needed

    if not is_here(dsn):
        yield _tried("box", _none)
        return
    found = _tried("box", partial(_box, dsn, schema))
    yield found
    if found.state is State.OK:
        from seriatim.box.box import MessageBox  # noqa: PLC0415 -- the driver, when it is needed

        with MessageBox.open(dsn, schema=schema, create=False) as box:
            yield from findings_of(box, audit=audit)


def findings_of(box: MessageBox, *, audit: bool = False) -> Iterator[Finding]:
    """Check a box that is open: first its work, then the box itself.

    Args:
        box: the box.
        audit: check its laws to the end, however large it is.
    """
    from seriatim.operations.doctor import box_checks, work_checks  # noqa: PLC0415 -- the driver, when it is needed

    work = work_checks.Work(box)
    for name, look_at_work in work_checks.CHECKS.items():
        yield _with_page(_tried(name, partial(look_at_work, work)))
    for name, look in (box_checks.CHECKS | ({"laws": box_checks.audit} if audit else {})).items():
        yield _with_page(_tried(name, partial(look, box)))


def findings_of_queue(box: MessageBox, queue: str) -> list[Finding]:
    """What needs a hand or a look in one queue, what is wrong first. Raises `UsageError` for an unknown name."""
    from seriatim.operations.doctor import work_checks  # noqa: PLC0415 -- the driver, when it is needed

    box.definitions().queue(queue)
    work = work_checks.Work(box, queue)
    found = [_with_page(_tried(name, partial(work_checks.CHECKS[name], work))) for name in work_checks.OF_QUEUE]
    return sorted((one for one in found if one.state is not State.OK), key=lambda one: one.state is not State.WRONG)


def _with_page(finding: Finding) -> Finding:
    """The finding, with its place in the page that says what to do when."""
    if finding.state is State.OK:
        return finding
    return replace(finding, page=f"{PAGE}#{finding.name.replace(' ', '-')}")


def _none() -> Finding:
    from seriatim.box.connection.connections import FOLDER  # noqa: PLC0415 -- the driver, when it is needed
    from seriatim.box.server.binaries import find_binaries  # noqa: PLC0415 -- what is told may be that it is missing
    from seriatim.box.server.private_folder import PrivateFolder  # noqa: PLC0415
    from seriatim.operations.box_here import NO_BOX, no_box  # noqa: PLC0415

    with suppress(FileNotFoundError):  # where there is a folder for it, it has to be of use
        PrivateFolder(FOLDER.absolute(), make=False)
    major = find_binaries().major
    if is_project():
        return Finding("box", State.OK, f"none here; an embedded one would be of PostgreSQL {major}")
    return Finding("box", State.WARNING, no_box(), NO_BOX)


def _box(dsn: str | None, schema: str) -> Finding:
    from seriatim.box.box import MessageBox  # noqa: PLC0415 -- what is told may be that it is missing

    status = MessageBox.check(dsn, schema=schema)
    return Finding("box", State.OK, f"{status.place}: version {status.version}, PostgreSQL {status.postgresql}")
