"""Kafka in a pipeline file: what Spark's connector can't do without is told before a start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from seriatim.pipeline.text.section import Section

FORMAT = "kafka"
_SERVERS = "kafka.bootstrap.servers"
#: Of these a source has exactly one.
_TOPICS = ("subscribe", "subscribePattern", "assign")
_JARS = ("spark.jars.packages", "spark.jars", "spark.driver.extraClassPath")


def check_source(section: Section, options: Collection[str]) -> None:
    """Report a source that doesn't name its servers or its topics."""
    known = {name.lower() for name in options}
    given = [name for name in _TOPICS if name.lower() in known]
    if len(given) != 1:
        what = f"Kafka's source takes one of {', '.join(_TOPICS)}, and has {' and '.join(given) or 'none'}"
        _fault(section, what, "{subscribe: orders}")
    _check_servers(section, known)


def check_sink(section: Section, options: Collection[str]) -> None:
    """Report a port that doesn't name its servers or its topic."""
    known = {name.lower() for name in options}
    if "topic" not in known:
        _fault(section, "Kafka's sink needs a topic", "{topic: ordered}")
    _check_servers(section, known)


def _check_servers(section: Section, known: Collection[str]) -> None:
    if _SERVERS not in known:
        _fault(section, f"Kafka needs {_SERVERS}, the brokers to begin with", f'{{{_SERVERS}: "k1:9092,k2:9092"}}')


def _fault(section: Section, what: str, options: str) -> None:
    section.fault("options" if section.has("options") else None, what, f"such as options: {options}")


def remark_connector(file: Section, formats: Iterable[str | None], spark: Mapping[str, str]) -> None:
    """Remark that the file names no connector, which isn't a part of Spark; the cluster may have it."""
    if FORMAT in formats and not any(FORMAT in spark.get(name, "") for name in _JARS):
        what = (
            "spark names no connector for Kafka, which isn't a part of Spark: spark.jars.packages: "
            "org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION, unless your Spark has it (seriatim docs kafka)"
        )
        file.problems.remark(file.key_place("spark" if file.has("spark") else "receive"), what)
