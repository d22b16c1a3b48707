"""The reference has the filters of each list as the listings have them."""

from scripts import filters_page


def test_the_reference_has_the_filters_as_they_are():
    told = "run python -m scripts.filters_page"
    assert filters_page.CLI.read_text(encoding="utf-8") == filters_page.cli_page(), told
    assert filters_page.OPERATIONS.read_text(encoding="utf-8") == filters_page.operations_page(), told
