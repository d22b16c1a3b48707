"""Checks of contracts and services for `define` and `drop`: whether they fit together, and whether they are in use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta

from seriatim.box.definitions.change import Definition, Kind
from seriatim.box.definitions.definition import Definitions
from seriatim.box.postgres.statements import Statements
from seriatim.errors import ActionRefused, NotFound, UsageError
from seriatim.kernel.groups.policy import Fifo
from seriatim.pipeline.declared.contract import DEFAULT, Contract, default_contract
from seriatim.pipeline.declared.queue import CONVERSATION_GROUP, Queue
from seriatim.pipeline.declared.service import Service, queue_of
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.section import likely


def queues_for(given: Iterable[Definition], before: Definitions) -> Iterator[Queue]:
    """The queues that services need and that neither exist nor are given."""
    there = {*before.queues, *(one.name for one in given if isinstance(one, Queue))}
    for one in given:
        if isinstance(one, Service) and one.queue is not None and one.queue not in there:
            there.add(one.queue)
            yield queue_of(one)


def check_contract(old: Definition | None, new: Contract, *, broken: bool = False) -> None:
    """Refuse to change a contract, because its dialogs rely on it."""
    if (new.name == DEFAULT and not (broken and new == default_contract())) or old is not None:
        raise ActionRefused(
            f"contract {new.name!r} can't change",
            remedy="a new version is a new name; one that nothing uses can be dropped",
        )


def check_services(before: Definitions, after: Definitions, given: Collection[str]) -> None:
    """Refuse services that don't fit the queues and contracts, unless nothing of it is given or changed."""
    here = {name: (one, one.queue) for name, one in after.services.items() if one.queue is not None}
    for name, (service, place) in here.items():
        where = f"service {name!r}"
        for one in service.contracts:
            if one not in after.contracts and (name in given or ("contract", one) not in before.unreadable):
                remedy = likely(one, after.contracts) or "define it"
                raise NotFound(f"there is no contract {one!r}", where=where, remedy=remedy)
        if after.queues[place].problem is not None and name not in given:
            continue
        policy = after.queue(place).declared.policy
        if after.queue(place).declared.group.by_type is not None:
            raise UsageError(
                f"queue {service.queue!r} puts each type in order by itself, and a dialog has several",
                where=where,
                remedy="leave out by_type",
            )
        if after.queue(place).declared.has_stays:
            raise UsageError(
                f"queue {service.queue!r} has messages that open or close groups, and dialogs begin and end by themselves",
                where=where,
                remedy="leave out opens and closes",
            )
        if not isinstance(policy, Fifo):
            raise UsageError(
                f"queue {service.queue!r} is {policy.name}, and dialogs are Fifo",
                where=where,
                remedy=f"Queue({service.queue!r}, policy=Fifo(), group={CONVERSATION_GROUP!r}), or leave it to the service",
            )
    for name, subscription in after.subscriptions.items():
        queue = after.queues.get(subscription.declared.to)
        if queue is not None and queue.declared.group.by == CONVERSATION_GROUP:
            raise UsageError(
                f"queue {queue.declared.name!r} is for the messages of dialogs alone",
                where=f"subscription {name!r}",
                remedy="let it lead to another queue",
            )


def check_unused_contract(
    statements: Statements, before: Definitions, name: str, *, gone: set[tuple[Kind, str]]
) -> None:
    """Refuse to drop a contract that a service accepts, or a dialog uses."""
    if name == DEFAULT:
        raise ActionRefused(f"contract {name!r} can't be dropped: every box has it")
    users = sorted(
        service
        for service, one in before.services.items()
        if name in one.contracts and (Kind.SERVICE, service) not in gone
    )
    if users:
        raise ActionRefused(
            f"contract {name!r} can't be dropped: services accept it: {', '.join(users)}", remedy="change them first"
        )
    if open_dialogs := _dialogs(statements, contract=name, service=None):
        raise ActionRefused(
            f"contract {name!r} can't be dropped: {counted(open_dialogs, 'dialog goes', 'dialogs go')} by it",
            remedy="end them: seriatim dialogs",
        )


def check_unused_service(statements: Statements, name: str, doing: str) -> None:
    """Refuse a change of a service that has open dialogs, or closed ones of which another box hasn't everything; others are forgotten."""
    statements.do("forget_closed", older_than=timedelta(0), of_service=name)
    if open_dialogs := _dialogs(statements, contract=None, service=name):
        raise ActionRefused(
            f"service {name!r} can't {doing}: it has {counted(open_dialogs, 'dialog')}",
            remedy="end them: seriatim dialogs; of those that are closed the other box hasn't acknowledged all yet",
        )


def check_unused_queue(before: Definitions, name: str, *, gone: set[tuple[Kind, str]]) -> None:
    """Refuse to drop a queue that gets the messages of a service."""
    users = sorted(
        service for service, one in before.services.items() if one.queue == name and (Kind.SERVICE, service) not in gone
    )
    if users:
        raise ActionRefused(
            f"queue {name!r} can't be dropped: services use it: {', '.join(users)}",
            remedy="drop them first, or together with it",
        )


def _dialogs(statements: Statements, *, contract: str | None, service: str | None) -> int:
    found = statements.value("open_dialogs", contract=contract, service=service)
    return int(found)
