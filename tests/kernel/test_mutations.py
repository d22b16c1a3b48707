"""Every mutation of the kernel is caught: a rule that can be broken unseen is a rule without a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.corpus import CAUGHT
from tests.kernel.killers import known
from tests.kernel.mutants import Mutants
from tests.kernel.mutations import MUTATIONS, Mutation

pytestmark = pytest.mark.dear

_KNOWN = known()


@pytest.fixture(scope="module")
def mutants() -> Iterator[Mutants]:
    with Mutants() as found:
        yield found


def test_the_kernel_itself_passes(mutants: Mutants) -> None:
    code, told = mutants.play()
    assert code == 0, told


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_is_caught(mutants: Mutants, mutation: Mutation) -> None:
    assert mutation.source().count(mutation.old) == 1, (
        "the mutation's text must occur exactly once; bring it up to date"
    )
    module, mutated = mutation.made()
    compile(mutated, mutation.file, "exec")
    code, told = mutants.play(module, mutated, first=_KNOWN.get(mutation.rule, ""))
    assert code == CAUGHT, f"survived: {mutation.rule}\n{told}"
