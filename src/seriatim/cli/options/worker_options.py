"""Options that the commands for workers share, ``work`` and ``serve``."""

from __future__ import annotations

import click

from seriatim.cli.options.option import flag, option, repeated, together

log_level = option(
    "--log-level", "Log messages of at least this level.",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False), default="info",
)  # fmt: skip
log_format = option(
    "--log-format", "Log lines for people, or one JSON object a line.",
    type=click.Choice(["text", "json"]), default="text",
)  # fmt: skip
metrics = option("--metrics", "Tell metrics and health at this address, such as 127.0.0.1:9464.", metavar="HOST:PORT")
no_wait = flag("--no-wait", "End with exit code 5 if the database is away (default: wait for it).")

#: The options ``transient``, ``business``, ``log_level``, ``log_format``, ``metrics`` and ``no_wait``.
worker_options = together(
    repeated("--transient", "Retry after exceptions of this class even if the handler's own code raised them.", metavar="MODULE:CLASS"),
    repeated("--business", "Fail at once at exceptions of this class, as at seriatim.Business.", metavar="MODULE:CLASS"),
    log_level,
    log_format,
    metrics,
    no_wait,
)  # fmt: skip
