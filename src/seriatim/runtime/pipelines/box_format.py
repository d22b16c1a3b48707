"""Spark's format ``seriatim``, connected with a message box.

Spark starts Python processes that only look for formats, and finds this one in each. So what opens a box is imported where it is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from seriatim.pipeline.declared.contract import DEFAULT
from seriatim.spark.box.format import BoxFormat, BoxOptions

if TYPE_CHECKING:
    from seriatim.box.pipelines.feed import PipelineFeed
    from seriatim.box.pipelines.staging import Staging
    from seriatim.pipeline.declared.pipeline import Pipeline
    from seriatim.spark.deliver.targets import LastBatch


class DefaultSource(BoxFormat):
    """The format. Spark finds it by this name in the module ``pyspark_seriatim``."""

    @staticmethod
    def feed(options: BoxOptions) -> PipelineFeed:
        from seriatim.box.connection.connections import DEFAULT_SCHEMA  # noqa: PLC0415 -- see above
        from seriatim.box.connection.dsn import without_secret  # noqa: PLC0415
        from seriatim.box.pipelines.feed import PipelineFeed  # noqa: PLC0415

        return PipelineFeed(
            without_secret(options.dsn),
            options.schema or DEFAULT_SCHEMA,
            queue=options.queue,
            service=options.service,
            pipeline=options.pipeline,
            takes_over=options.takes_over,
            prefix=options.prefix,
        )

    @staticmethod
    def staging(options: BoxOptions) -> Staging:
        from seriatim.box.connection.connections import DEFAULT_SCHEMA  # noqa: PLC0415 -- see above
        from seriatim.box.connection.dsn import without_secret  # noqa: PLC0415
        from seriatim.box.pipelines.dialog_staging import DialogStaging, Speaker  # noqa: PLC0415
        from seriatim.box.pipelines.incoming import Incoming  # noqa: PLC0415
        from seriatim.box.pipelines.staging import Staging  # noqa: PLC0415

        if options.service is not None:
            return DialogStaging(
                without_secret(options.dsn),
                options.schema or DEFAULT_SCHEMA,
                speaker=Speaker(str(options.from_service), options.service, options.contract or DEFAULT),
                incoming=Incoming(options.type or DEFAULT, options.dialog_by),
                fence=options.fence,
            )
        return Staging(
            without_secret(options.dsn),
            options.schema or DEFAULT_SCHEMA,
            queue=options.queue,
            incoming=Incoming(options.type, options.group, options.sequence),
            wait=options.wait_s,
            fence=options.fence,
        )


def register(session: Any, dsn: str | None = None, others: Mapping[str, str] | None = None) -> None:
    """Register the format in a session, and set the box for frames that name none. A session whose Python can find ``pyspark_seriatim``
    knows the format by itself. The workers of this session get the DSN in their environment, on every machine; it is in no option, plan or
    checkpoint.
    """
    from seriatim.box.connection.connections import VARIABLE  # noqa: PLC0415 -- see above

    environment = session.sparkContext.environment
    address = dsn or os.environ.get(VARIABLE)
    options_ = {**(others or {}), **({} if address is None else {VARIABLE: address})}
    before = {name: environment[name] for name in options_ if name in environment}
    environment.update(options_)
    try:
        session.dataSource.register(DefaultSource)
    finally:
        for name in options_:
            environment.pop(name, None)
        environment.update(before)


@contextmanager
def boxed(pipeline: Pipeline, session: Any) -> Iterator[LastBatch]:
    """Open the boxes of a pipeline, if it needs some, for a session, while the block runs; yields what asks its own for batches."""
    from seriatim.box.box import MessageBox  # noqa: PLC0415 -- see above
    from seriatim.box.connection.connections import DEFAULT_SCHEMA  # noqa: PLC0415
    from seriatim.box.pipelines.staging import last_batch  # noqa: PLC0415

    rest: dict[str, str] = {}
    for variable, place in pipeline.other_boxes.items():
        with MessageBox.open(place.dsn, schema=place.schema or DEFAULT_SCHEMA, connections=1, create=False) as box:
            rest[variable] = box.dsn
    if not pipeline.needs_box:
        if rest:
            register(session, others=rest)
        yield lambda _: None
        return
    schema = pipeline.box.schema or DEFAULT_SCHEMA
    # As with the commands: the name of another schema may be mistyped.
    creates = schema == DEFAULT_SCHEMA
    with MessageBox.open(pipeline.box.dsn, schema=schema, connections=1, create=creates) as box:
        register(session, box.dsn, rest)
        yield lambda writer: box.access.within(last_batch, writer)
