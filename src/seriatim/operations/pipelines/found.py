"""Which pipeline is meant: by its name, or by its file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seriatim.errors import NotFound, UsageError, shown
from seriatim.kernel.groups.policy import Unordered
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.pipeline.files import pipeline_file
from seriatim.pipeline.text.counted import counted
from seriatim.spark.control.pipeline_place import PipelinePlace

#: Where pipelines have their checkpoints, unless their files say otherwise.
FOLDER = Path(".seriatim", "pipelines")
#: What the first parameter of functions of pipelines is, for their help.
OF_PIPELINE = "the pipeline's name, or its file"


@dataclass(frozen=True, slots=True)
class FoundPipeline:
    """A pipeline that has run.

    Args:
        place: its checkpoint.
        declared: its file, or as its last batch was begun under it.
    """

    place: PipelinePlace
    declared: Pipeline

    @property
    def name(self) -> str:
        """Its name."""
        return self.place.name

    def queue(self, name: str | None) -> str:
        """The destination that has groups; None: the only one.

        Raises:
            UsageError: there is none of that name, or it has no groups; or there are several.
        """
        ordered = [one.queue for one in self.declared.route if not isinstance(one.queue.policy, Unordered)]
        listed = ", ".join(one.name for one in ordered)
        if name is None and len(ordered) == 1:
            return ordered[0].name
        if name is None and ordered:
            what = f"pipeline {self.name!r} has {counted(len(ordered), 'destination')} with groups"
            raise UsageError(what, remedy=f"name one: {listed}")
        if not any(one.name == name for one in ordered):
            remedy = f"one of {listed}" if listed else "only ordered destinations have groups"
            if name is None:
                raise UsageError("it has no groups", remedy=remedy)
            if any(one.queue.name == name for one in self.declared.route):
                raise UsageError(f"destination {shown(name)} is unordered: it has no groups", remedy=remedy)
            raise NotFound(f"pipeline {self.name!r} has no destination {shown(name)}", remedy=remedy)
        return str(name)


def found_of(pipeline: str | Path | FoundPipeline) -> FoundPipeline:
    """A pipeline that was found, or is found by its name or its file; errors as for `find`."""
    return pipeline if isinstance(pipeline, FoundPipeline) else find(pipeline)


def find(name_or_file: str | Path) -> FoundPipeline:
    """The pipeline with that name below this folder, or in that file.

    Raises:
        UsageError: there is none, or it has not run yet.
        DeclarationError: the file is wrong.
        CheckpointMismatch: its checkpoint is another pipeline's, of another layout, or damaged.
    """
    file = Path(name_or_file)
    if file.is_file():
        declared = pipeline_file.load(file)
        return FoundPipeline(PipelinePlace.of(declared.checkpoint.absolute(), declared.name), declared)
    root = FOLDER / file
    if len(file.parts) != 1 or not (root / "pipeline.json").exists():
        there = sorted(one.parent.name for one in FOLDER.glob("*/pipeline.json"))
        listed = f"here are {', '.join(there)}; or name" if there else "name"
        raise NotFound(
            f"there is no pipeline {shown(str(name_or_file))}, and no such file",
            remedy=f"{listed} the file of the pipeline",
        )
    place = PipelinePlace.of(root.absolute(), str(file))
    copy = root / "declaration.yaml"
    if not copy.exists():
        raise UsageError(f"pipeline {str(file)!r} ran without a file", remedy="name a file that declares it")
    # Functions of the user's are looked for in this folder, and not beside the copy.
    return FoundPipeline(place, pipeline_file.load(copy, original=Path("pipeline.yaml")))
