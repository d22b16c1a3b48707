"""The alerts that seriatim recommends, from which ``docs/alerts.yml`` is made, with a case for each that makes it fire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alert:
    name: str
    #: An expression in Prometheus' language that is true while there is a problem.
    expression: str
    #: How long it has to be true before the alert fires, such as ``5m``.
    lasts: str
    severity: str
    #: The problem; ``{{ $labels.queue }}`` and ``{{ $value }}`` are Prometheus'.
    summary: str
    helps: str
    #: Series with values a minute apart, in the language of ``promtool test rules``, at which it fires after `after` minutes.
    fires: Mapping[str, str]
    quiet: Mapping[str, str]
    #: The labels with which it fires in that case.
    labels: Mapping[str, str]
    #: The minute of the case at which it is looked at.
    after: int = 30


_QUEUE = {"queue": "orders"}

ALERTS: tuple[Alert, ...] = (
    Alert(
        "SeriatimDown", "seriatim_up == 0", "2m", "critical", "the message box doesn't answer",
        "is PostgreSQL running? seriatim health",
        {"seriatim_up": "0x40"}, {"seriatim_up": "1x40"}, {},
    ),
    Alert(
        "SeriatimLawBroken", "seriatim_law_broken > 0", "0m", "critical",
        "the message box breaks its laws in {{ $value }} places: messages may be lost or doubled",
        "seriatim doctor --audit names them; report it",
        {"seriatim_law_broken": "0x10 2x30"}, {"seriatim_law_broken": "0x40"}, {},
    ),
    Alert(
        "SeriatimReadyForLong", "max by (queue) (seriatim_oldest_ready_seconds) > 300 and on (queue) seriatim_queue_enabled == 1",
        "5m", "warning",
        "queue {{ $labels.queue }}: messages that can be handed out have waited for {{ $value | humanizeDuration }}",
        "are there workers, and enough? seriatim workers, seriatim doctor",
        {'seriatim_oldest_ready_seconds{queue="orders"}': "0+60x40", 'seriatim_queue_enabled{queue="orders"}': "1x40"},
        {'seriatim_oldest_ready_seconds{queue="orders"}': "0+60x40", 'seriatim_queue_enabled{queue="orders"}': "0x40"},
        _QUEUE,
    ),
    Alert(
        "SeriatimNobodyAtWork",
        "max by (queue) (seriatim_queue_processes) == 0 and on (queue) seriatim_oldest_ready_seconds > 60 "
        "and on (queue) seriatim_queue_enabled == 1",
        "5m", "warning",
        "queue {{ $labels.queue }} has messages to hand out, and no process works on it",
        "start a worker: seriatim work {{ $labels.queue }}; receivers in applications have no heartbeat: leave this alert "
        "out for their queues",
        {
            'seriatim_queue_processes{queue="orders"}': "0x40", 'seriatim_oldest_ready_seconds{queue="orders"}': "0+60x40",
            'seriatim_queue_enabled{queue="orders"}': "1x40",
        },
        {
            'seriatim_queue_processes{queue="orders"}': "1x40", 'seriatim_oldest_ready_seconds{queue="orders"}': "0+60x40",
            'seriatim_queue_enabled{queue="orders"}': "1x40",
        },
        _QUEUE,
    ),
    Alert(
        "SeriatimFaulted",
        'max by (queue) (seriatim_groups{state="faulted"}) + max by (queue) (seriatim_messages{state="faulted"}) > 0', "5m", "warning",
        "queue {{ $labels.queue }}: {{ $value }} groups or messages are faulted and wait for an operator",
        "seriatim groups --queue {{ $labels.queue }} --state faulted",
        {
            'seriatim_groups{queue="orders",state="faulted"}': "0x5 3x35",
            'seriatim_messages{queue="orders",state="faulted"}': "0x40",
        },
        {
            'seriatim_groups{queue="orders",state="faulted"}': "0x40",
            'seriatim_messages{queue="orders",state="faulted"}': "0x40",
        },
        _QUEUE,
    ),
    Alert(
        "SeriatimHoleOpenForLong", "seriatim_holes_standing > 0", "15m", "warning",
        "queue {{ $labels.queue }}: {{ $value }} groups stand still, because a number is missing",
        "seriatim groups --queue {{ $labels.queue }} --state waiting; ask the sender, or seriatim group skip-hole",
        {'seriatim_holes_standing{queue="orders"}': "0x5 2x35"}, {'seriatim_holes_standing{queue="orders"}': "0x40"}, _QUEUE,
    ),
    Alert(
        "SeriatimDeadLetters", 'increase(seriatim_set_aside_messages{disposition="dead"}[15m]) > 0', "0m", "warning",
        "queue {{ $labels.queue }} has new dead letters", "seriatim dead-letters list --queue {{ $labels.queue }}",
        {'seriatim_set_aside_messages{queue="orders",disposition="dead"}': "0x20 1x5 4x15"},
        {'seriatim_set_aside_messages{queue="orders",disposition="dead"}': "4x40"},
        _QUEUE | {"disposition": "dead"},
    ),
    Alert(
        "SeriatimUnrouted", "seriatim_unrouted_messages > 0", "15m", "warning",
        "{{ $value }} messages are in no queue: no subscription matched, or they are invalid", "seriatim unrouted",
        {"seriatim_unrouted_messages": "0x5 7x35"}, {"seriatim_unrouted_messages": "0x40"}, {},
    ),
    Alert(
        "SeriatimQueueFull",
        "sum by (queue) (max by (queue, state) (seriatim_messages)) / on (queue) max by (queue) "
        "(seriatim_queue_limit_messages) > 0.9", "5m", "warning",
        "queue {{ $labels.queue }} is {{ $value | humanizePercentage }} full: publishers will wait, or are refused",
        "seriatim queues; more workers, or a larger max_messages",
        {'seriatim_messages{queue="orders",state="queued"}': "950x40", 'seriatim_queue_limit_messages{queue="orders"}': "1000x40"},
        {'seriatim_messages{queue="orders",state="queued"}': "10x40", 'seriatim_queue_limit_messages{queue="orders"}': "1000x40"},
        _QUEUE,
    ),
    Alert(
        "SeriatimConflicts", "increase(seriatim_conflicts_total[15m]) > 0", "0m", "warning",
        "queue {{ $labels.queue }}: messages came again with another content", "seriatim set-aside --queue {{ $labels.queue }}",
        {'seriatim_conflicts_total{queue="orders"}': "0x20 2x20"}, {'seriatim_conflicts_total{queue="orders"}': "2x40"}, _QUEUE,
    ),
    Alert(
        "SeriatimFaultsOften",
        "sum by (queue) (rate(seriatim_faults_total[15m])) / sum by (queue) (rate(seriatim_handled_total[15m])) > 0.1", "10m", "warning",
        "queue {{ $labels.queue }}: {{ $value | humanizePercentage }} of the attempts fail", "seriatim faults --by error",
        {'seriatim_faults_total{queue="orders",kind="transient"}': "0+20x40", 'seriatim_handled_total{queue="orders"}': "0+100x40"},
        {'seriatim_faults_total{queue="orders",kind="transient"}': "0+1x40", 'seriatim_handled_total{queue="orders"}': "0+100x40"},
        _QUEUE,
    ),
    Alert(
        "SeriatimLeasesLost", "increase(seriatim_leases_lost_total[15m]) > 0", "0m", "warning",
        "queue {{ $labels.queue }}: workers lost leases, so messages are handled again",
        "is the database slow, or a machine overloaded? a longer --lease",
        {'seriatim_leases_lost_total{queue="orders"}': "0x20 1x20"}, {'seriatim_leases_lost_total{queue="orders"}': "1x40"}, _QUEUE,
    ),
    Alert(
        "SeriatimProcessesDie", "increase(seriatim_processes_replaced_total[15m]) > 2", "0m", "warning",
        "worker processes die and are replaced", "their log says of what; the message that each had in hand has used up an attempt",
        {"seriatim_processes_replaced_total": "0x20 5x20"}, {"seriatim_processes_replaced_total": "5x40"}, {},
    ),
    Alert(
        "SeriatimTransactionOpen", "seriatim_oldest_transaction_seconds > 900", "5m", "warning",
        "a transaction in the box's database has been open for {{ $value | humanizeDuration }}: it holds back vacuum", "seriatim doctor",
        {"seriatim_oldest_transaction_seconds": "0+60x40"}, {"seriatim_oldest_transaction_seconds": "5x40"}, {},
    ),
    Alert(
        "SeriatimPortFails", "seriatim_run_port_failing == 1", "10m", "warning",
        "destination {{ $labels.destination }}: its port fails, and its messages wait", "seriatim doctor",
        {'seriatim_run_port_failing{destination="a"}': "1x40"}, {'seriatim_run_port_failing{destination="a"}': "0x40"},
        {"destination": "a"},
    ),
    Alert(
        "SeriatimNobodyDelivers", "max by (pipeline) (seriatim_run_delivers) == 0", "10m", "critical",
        "pipeline {{ $labels.pipeline }}: neither region delivers", "seriatim journal pipelines; then whether the runs reach the journal",
        {'seriatim_run_delivers{pipeline="p",region="a"}': "0x40", 'seriatim_run_delivers{pipeline="p",region="b"}': "0x40"},
        {'seriatim_run_delivers{pipeline="p",region="a"}': "0x40", 'seriatim_run_delivers{pipeline="p",region="b"}': "1x40"},
        {"pipeline": "p"},
    ),
)  # fmt: skip
