"""The public interface is listed: a name that goes, comes, or takes something else is seen in a diff."""

import inspect

from scripts import interface_page


def test_the_page_lists_the_names_as_they_are():
    written = interface_page.PAGE.read_text(encoding="utf-8")
    assert written == interface_page.page(), (
        "run python -m scripts.interface_page, and say in CHANGELOG.md what has changed"
    )


def test_every_public_name_says_what_it_does():
    without = [
        f"{module}.{name}"
        for module, names in interface_page.modules()
        for name, thing in names
        if callable(thing)
        for name, thing in [(name, thing), *members(name, thing)]
        if not inspect.getdoc(thing)
    ]
    assert without == []


def members(name, kind):
    for owner in inspect.getmro(kind) if inspect.isclass(kind) else ():
        if owner.__module__.startswith("seriatim"):
            for member, one in vars(owner).items():
                if not member.startswith("_") and (
                    isinstance(one, property) or callable(getattr(one, "__func__", one))
                ):
                    yield f"{name}.{member}", one
