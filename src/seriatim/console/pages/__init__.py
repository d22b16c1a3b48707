"""The pages of the console: those that are a list in `lists.py`, and a module each of the others, which nothing else has to know."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from seriatim.console.page import Page


def pages() -> list[Page]:
    modules = (import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__))
    return [page for module in modules for page in getattr(module, "PAGES", None) or (module.PAGE,)]
