"""Traces by OpenTelemetry's API: to export them, configure an SDK, as for any other library. `install()` begins it."""

from seriatim.extras import need

need("otel")

from seriatim.tracing.spans import install  # noqa: E402 -- it looks first whether what it imports is installed

__all__ = ["install"]
