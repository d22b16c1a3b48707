"""The public interface is listed: a name that goes, comes, or takes something else is seen in a diff."""

from scripts import interface_page


def test_the_page_lists_the_names_as_they_are():
    written = interface_page.PAGE.read_text(encoding="utf-8")
    assert written == interface_page.page(), (
        "run python -m scripts.interface_page, and say in CHANGELOG.md what has changed"
    )
