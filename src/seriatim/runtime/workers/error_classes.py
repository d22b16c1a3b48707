"""The user's declarations of classes of exceptions, given as classes or by their names."""

from collections.abc import Sequence
from pathlib import Path

from seriatim.errors import UsageError, shown
from seriatim.kernel.operators.fault import ErrorClasses
from seriatim.pipeline.declared.error_class import FaultKinds, load_error_class


def error_classes(faults: FaultKinds, folders: Sequence[str]) -> ErrorClasses:
    if not isinstance(faults, FaultKinds):
        raise UsageError(
            f"faults can't be {shown(faults)}", remedy="such as FaultKinds(transient=[httpx.TransportError])"
        )
    places = [Path(folder) for folder in folders] or [Path.cwd()]
    loaded = [
        tuple(load_error_class(error, places) if isinstance(error, str) else error for error in named)
        for named in (faults.transient, faults.business)
    ]
    classes = ErrorClasses(*loaded)
    if classes.contradictions:
        raise UsageError(
            f"{classes.contradictions[0].__name__} can't be both transient and business",
            remedy="leave it out of one of them",
        )
    return classes
