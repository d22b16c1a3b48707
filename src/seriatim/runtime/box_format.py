"""Register Spark's format ``seriatim`` in a session, as applications import it."""

from seriatim.runtime.pipelines.box_format import register

__all__ = ["register"]
