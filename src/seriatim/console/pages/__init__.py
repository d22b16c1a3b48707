"""The pages of the console, a module each. A module that has `PAGE` is a page; nothing else has to know of it."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from seriatim.console.page import Page

__all__ = ["pages"]


def pages() -> list[Page]:
    """All pages, those with more fixed parts of a path first."""
    modules = (import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__))
    return [module.PAGE for module in modules if hasattr(module, "PAGE")]
