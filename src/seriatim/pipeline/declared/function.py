"""The user's functions, named ``module:name``: imported, and sent to the process that calls them.

Owns the search for modules, and the errors about modules that can't be used. The search begins with Python's own path;
the current directory and the folder of the pipeline file come last. So a file of the user never replaces an installed
module. If both have the same name, that is an error: seriatim never calls a function of the wrong module.
"""

from __future__ import annotations

import importlib
import inspect
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
from seriatim.extras import remedy_for

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
#: What many write in its place: the file of the module.
_FILE = re.compile(r"([\w./-]+)\.py(?::(\w*))?")
_MOST = 300


@dataclass(frozen=True, slots=True)
class Function:
    """The name of a function, and the folders to search for its module; small, and survives pickling."""

    name: str
    #: The folders to search after Python's own path, in that order.
    folders: tuple[str, ...] = ()

    def load(self) -> Callable[..., Any]:
        return load_function(self.name, [Path(folder) for folder in self.folders])


def search_folders(pipeline_file: Path | None) -> tuple[str, ...]:
    """The folders to search for a pipeline's functions: the current directory and the folder of the pipeline file."""
    folders = [Path.cwd(), *([pipeline_file.absolute().parent] if pipeline_file else [])]
    return tuple(dict.fromkeys(str(folder) for folder in folders))


def checked_function(name: object) -> str:
    """Check that the value of a parameter is the name of a function, and return it. The function need not exist."""
    if isinstance(name, str) and _FILE.fullmatch(name):
        raise UsageError(f"{shown(name)} names a file, not a module", remedy=f"write {meant_function(name)}")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{shown(name)} doesn't name a function", remedy="write module:name, such as orders.enrich:apply"
        )
    return name


def check_takes(function: Callable[..., Any], name: str, given: str, argument: str) -> None:
    """Check that a function can be called with one argument; one that is written in C doesn't always tell what it takes."""
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        what = f"{name} can't be called with {given} alone: {error}"
        raise UsageError(what, remedy=f"it takes one argument, {argument}") from error
    except ValueError:
        return


def meant_function(text: object) -> str | None:
    """The function that a text names, by its file or its module; None: it names none."""
    if not isinstance(text, str):
        return None
    if file := _FILE.fullmatch(text):
        return f"{'.'.join(one for one in file[1].split('/') if one not in ('', '.'))}:{file[2] or 'function'}"
    return text if _NAME.fullmatch(text) else None


def load_function(name: str, folders: Sequence[Path]) -> Callable[..., Any]:
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
            f"{attribute!r} in {_place(module)} has the type {type(found).__name__}, which isn't callable",
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
        raise _broken(name, error, remedy_for(error.name)) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException, remedy: str = "") -> UsageError:
    """The failure of the module's import, with the innermost line outside the import system."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith("<frozen ")]
    own = [one for one in frames if one.filename not in (importlib.__file__, __file__)]
    place = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return UsageError(f"the module {name!r} can't be imported: {text[:_MOST]}{place}", remedy=remedy)


def _check_place(module: ModuleType, name: str, folders: Sequence[Path]) -> None:
    """Refuse the imported module if another module with its name lies in one of `folders`."""
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
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__
    ]
    return f"it has {', '.join(names[:8])}" if names else ""
