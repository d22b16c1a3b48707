"""In a run on several workers each keeps what belongs together: pytest-xdist says nothing where it can't group."""

from __future__ import annotations

import os

from tests.databases import box_with

box = box_with(lambda box: None, scope="module")


def test_the_tests_that_share_a_fixture_are_one_group(request, box):
    assert request.node.get_closest_marker("xdist_group").args == ("tests/project/test_shares.py",)
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@tests/project/test_shares.py")
