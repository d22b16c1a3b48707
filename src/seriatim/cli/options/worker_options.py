"""Options that the commands for workers share, ``work`` and ``serve``."""

from __future__ import annotations

import click

from seriatim.cli.options.together import together

log_level = click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False), default="info",
    show_default=True, help="Log messages of at least this level.",
)  # fmt: skip
log_format = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="Log lines for people, or one JSON object a line.",
)  # fmt: skip
metrics = click.option(
    "--metrics", metavar="HOST:PORT", help="Tell metrics and health at this address, such as 127.0.0.1:9464."
)
no_wait = click.option(
    "--no-wait", is_flag=True, help="End with exit code 5 if the database is away (default: wait for it)."
)

#: The options ``transient``, ``business``, ``log_level``, ``log_format``, ``metrics`` and ``no_wait``.
worker_options = together(
    click.option(
        "--transient", multiple=True, metavar="MODULE:CLASS",
        help="Retry after exceptions of this class even if the handler's own code raised them; may be repeated.",
    ),
    click.option(
        "--business", multiple=True, metavar="MODULE:CLASS",
        help="Fail at once at exceptions of this class, as at seriatim.Business; may be repeated.",
    ),
    log_level,
    log_format,
    metrics,
    no_wait,
)  # fmt: skip
