"""The user's functions, named ``module:name``: imported, and sent to the process that calls them.

Owns where modules are looked for and what is said of one that can't be used. A module is looked for as in any Python,
and then in the current directory and in the folder of the pipeline file: a file of the user's never takes the place
of an installed module, and where it would have to, that is an error and not another function.
"""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from seriatim.errors import UsageError, shown

__all__ = ["Function", "checked_function", "load_function", "search_folders"]

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_MOST = 300


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its name, with the folders to look in; small, and survives pickling.

    Args:
        name: ``module:name``; either may have dots.
        folders: where to look besides Python's own path, in that order.
    """

    name: str
    folders: tuple[str, ...] = ()

    def load(self) -> Callable[..., Any]:
        """The function itself.

        Raises:
            UsageError: see `load_function`.
        """
        return load_function(self.name, [Path(folder) for folder in self.folders])


def search_folders(pipeline_file: Path | None) -> tuple[str, ...]:
    """Where a pipeline's functions are looked for: the current directory and the folder of its file."""
    folders = [Path.cwd(), *([pipeline_file.absolute().parent] if pipeline_file else [])]
    return tuple(dict.fromkeys(str(folder) for folder in folders))


def checked_function(name: object) -> str:
    """The name of a function, wherever that is.

    Raises:
        UsageError: it isn't of the form ``module:name``.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{shown(name)} doesn't name a function", remedy="write module:name, such as orders.enrich:apply"
        )
    return name


def load_function(name: str, folders: Sequence[Path]) -> Callable[..., Any]:
    """Import a function.

    Args:
        name: ``module:name``.
        folders: where to look besides Python's own path; they stay there, since a module may import others later.

    Raises:
        UsageError: the name is none, there is no such module, it can't be imported (with its own words), it is
            another one than that in `folders`, it has no such name, or that can't be called.
    """
    module_name, _, attribute = checked_function(name).partition(":")
    _look_in(folders)
    module = _imported(module_name, folders)
    _check_place(module, module_name, folders)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(
                f"{_place(module)} has no {attribute!r}", where=f"function {name}", remedy=_names_of(module)
            )
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(
            f"{attribute!r} in {_place(module)} is a {type(found).__name__}, which isn't callable",
            where=f"function {name}",
        )
    return found


def _look_in(folders: Sequence[Path]) -> None:
    for folder in folders:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    importlib.invalidate_caches()


def _imported(name: str, folders: Sequence[Path]) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            places = " and ".join(map(str, folders))
            remedy = f"looked for in Python's path{f', in {places}' if places else ''}"
            raise UsageError(f"there is no module {error.name!r}", remedy=remedy) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> UsageError:
    """The module's own failure, with the innermost line that is not of the import system."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith("<frozen ")]
    own = [one for one in frames if one.filename not in (importlib.__file__, __file__)]
    place = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return UsageError(f"the module {name!r} can't be imported: {text[:_MOST]}{place}")


def _check_place(module: ModuleType, name: str, folders: Sequence[Path]) -> None:
    """See that a module that lies in one of `folders` is the one that was imported."""
    top = name.partition(".")[0]
    meant = PathFinder.find_spec(top, [str(folder) for folder in folders])
    if meant is None or meant.origin is None:  # not there, or a folder without __init__.py, which may have many places
        return
    got = getattr(sys.modules.get(top, module), "__file__", None)
    if got is None or Path(got).resolve() != Path(meant.origin).resolve():
        raise UsageError(
            f"the module {top!r} is {got or 'built in'} here, and not {meant.origin}",
            remedy="rename your module: a process has only one module of a name",
        )


def _place(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return f"module {module.__name__!r}{f' ({file})' if file else ''}"


def _names_of(module: ModuleType) -> str:
    """What there is to call instead."""
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__
    ]
    return f"it has {', '.join(names[:8])}" if names else ""
