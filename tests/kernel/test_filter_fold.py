"""Every meaning of filters has a function for every kind of node."""

from __future__ import annotations

import typing

import pytest

from seriatim.kernel.filters import filter_eval, filter_function
from seriatim.kernel.filters.filter import BOOLEAN, LONG, And, Constant, Expression, In, Not, Or, Parameter, Property
from seriatim.kernel.filters.filter_fold import fold, nodes, parts, with_parts

_X = Property("x", LONG)
_TREE = And((Or((In(_X, (1, 2)), Constant(None, BOOLEAN))), Not(In(_X, (3,)))))


@pytest.mark.parametrize("module", [filter_eval, filter_function], ids=lambda module: module.__name__)
def test_a_meaning_has_all_kinds_of_nodes(module):
    table = module._meaning({}) if module is filter_eval else module._FUNCTIONS
    assert set(table) == set(typing.get_args(Expression))


def test_a_fold_brings_each_node_what_its_parts_gave():
    sizes = {kind: lambda node, *below: 1 + sum(below) for kind in typing.get_args(Expression)}
    assert fold(_TREE, sizes) == len(list(nodes(_TREE))) == 8


def test_shared_parts_are_computed_once():
    calls = []
    count = {kind: lambda node, *_: calls.append(node) or len(calls) for kind in typing.get_args(Expression)}
    shared = {_TREE.terms[1]: None}
    for _ in range(2):
        fold(_TREE, count, shared)
    assert (calls.count(_TREE.terms[1]), calls.count(_TREE)) == (1, 2)


def test_other_parts_take_the_places_of_the_old_ones():
    assert with_parts(_TREE, parts(_TREE)) == _TREE
    assert with_parts(Not(_TREE), [Parameter(0, BOOLEAN)]) == Not(Parameter(0, BOOLEAN))
    with pytest.raises(ValueError, match="argument"):
        with_parts(Not(_TREE), [])
