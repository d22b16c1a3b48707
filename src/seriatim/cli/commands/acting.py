"""Act on groups of a box or of a pipeline: on one, on several, or on all that match. The commands are in `group.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from inspect import cleandoc
from typing import Any

import click

from seriatim.box.views.filtered import offered
from seriatim.cli.commands.bulk import follow_bulk
from seriatim.cli.commands.pipeline_groups import check_filters, not_with_dsn, which_pipeline
from seriatim.cli.options.listing import is_filtered, options_of
from seriatim.cli.options.option import flag, option, together
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.options.why import Why, confirmed, no_if_refused, says_why
from seriatim.cli.shown.progress import shown_progress
from seriatim.cli.shown.table import Table, json_option, print_object, print_row, print_rows, tell
from seriatim.errors import UsageError
from seriatim.kernel.groups.verbs import VERBS, Action, Parameter, ParameterKind
from seriatim.kernel.operators.held_groups import missing_numbers
from seriatim.operations import bulk_operations
from seriatim.operations.bulk import Refused
from seriatim.operations.groups import groups
from seriatim.operations.places import BoxGroups, Groups, InGroup
from seriatim.operations.tables import acted, pipelines
from seriatim.operations.tables.bulk import BULK_OPERATIONS
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted

its_queue = option("--queue", "The group's queue; required if several queues have a group with this key.")
_FILTERS = offered(groups)
_TYPES: Mapping[ParameterKind, dict[str, Any]] = {
    ParameterKind.NUMBER: {"type": int},
    ParameterKind.FLAG: {"is_flag": True},
    ParameterKind.MESSAGE: {"metavar": "ID"},
    ParameterKind.BODY: {"type": click.File("rb")},
}
_OF_MANY = (
    "\n\nTakes one GROUP or several. With --all, acts on every group that matches the options and whose state allows the action; "
    "if these are more than 1,000, or with --no-wait, by a bulk operation, which goes on when this command ends (see `seriatim bulk`)."
)


@dataclass(frozen=True)
class GroupCommand:
    """What a command was asked to do: an action, what is given of its parameters, and on which groups."""

    action: Action
    given: Mapping[str, Any]
    chosen: Mapping[str, Any]
    why: Why
    dsn: str | None
    schema: str
    json_: bool
    dry_run: bool
    keys: tuple[str, ...] = ()
    pipeline: str | None = None
    all_: bool = False
    yes: bool = False
    no_wait: bool = False

    def act(self, others: str = "--all") -> None:
        """Act on these groups, and print what came of it; `others`: what names groups besides their keys."""
        self._check(others)
        with self._place() as place:
            if self.all_:
                self._many(place)
            elif len(self.keys) == 1:
                done = place.act(
                    self.action, self.chosen["queue"], self.keys[0], **self._tried, **self.given, **self._who
                )
                print_row(place.operation, done, _line(done), json_=self.json_)
            else:
                self._tell_all(place, self._each(place, place.named(self.action, self.keys, self.chosen["queue"])))

    @property
    def is_filtered(self) -> bool:
        """Whether groups are chosen by more than their queue."""
        return is_filtered({**self.chosen, "queue": None})

    def _check(self, others: str) -> None:
        of_one = [
            one.option
            for one in VERBS[self.action].takes
            if one.name in self.given and one.kind is not ParameterKind.FLAG
        ]
        if self.pipeline is not None:
            not_with_dsn(self.dsn)
        if self.no_wait and (not self.all_ or self.pipeline is not None):
            raise UsageError("--no-wait needs --all, on a message box", remedy="leave it out")
        if self.all_ is bool(self.keys):
            raise UsageError("name either groups or --all", remedy=f"name a GROUP, or several, or give {others}")
        if of_one and (self.all_ or len(self.keys) > 1):
            raise UsageError(
                f"{' and '.join(of_one)} works on one group only", remedy="leave it out, or name one GROUP"
            )
        if self.all_:
            return
        if self.is_filtered or (self.dry_run and VERBS[self.action].in_bulk and not self._is_tried):
            raise UsageError(
                "filters and --dry-run need --all",
                remedy=f"to look at one group: {command('group', 'show', of=self.keys[0])}",
            )
        if self.dry_run and not self._is_tried:
            raise UsageError(
                "--dry-run needs --pipeline",
                remedy=f"to look at the group: {command('group', 'show', of=self.keys[0])}",
            )

    @property
    def _is_tried(self) -> bool:
        """Whether a pipeline is asked what an action on one group would do."""
        return self.dry_run and self.pipeline is not None and len(self.keys) == 1

    @property
    def _tried(self) -> dict[str, Any]:
        return {"dry_run": True} if self._is_tried else {}

    @cached_property
    def _who(self) -> dict[str, Any]:
        return replace(self.why, reason=self.why.reason or ("a dry run" if self._is_tried else None))()

    @contextmanager
    def _place(self) -> Iterator[Groups]:
        """The place of the groups; of a box after the reason is known, which may be asked for."""
        if self.pipeline is not None:
            from seriatim.operations.pipelines.found import find  # noqa: PLC0415 -- Spark is slow to import
            from seriatim.operations.pipelines.groups import PipelineGroups  # noqa: PLC0415

            yield PipelineGroups(find(self.pipeline))
            return
        if not self.all_:
            _ = self._who
        with opened(self.dsn, self.schema) as box:
            yield BoxGroups(box)

    def _many(self, place: Groups) -> None:
        chosen = dict(self.chosen) if isinstance(place, BoxGroups) else check_filters(self.chosen)
        views: Sequence[Any] = place.chosen(self.action, actor=self.why.actor, **chosen)
        if self.dry_run:
            if self.json_:
                print_object(place.acted, {"action": self.action, "dry_run": True, "groups": views})
            else:
                print_rows(place.view.only("queue", "group", "state", "since", nothing=None), views)
                click.echo(f"{self.action.command} would be done to {counted(len(views), 'group')}")
            return
        if views:
            confirmed(f"{self.action.command} {counted(len(views), 'group')}?", yes=self.yes)
        if isinstance(place, BoxGroups) and views and (len(views) > bulk_operations.AT_ONCE or self.no_wait):
            kept = bulk_operations.gather(
                place.box, self.action, views, chosen_by=self._chosen_by, at_once=self._at_once, **self._who
            )
            begun = bulk_operations.begin(place.box, kept.bulk_id)
            follow_bulk(place.box, begun, waits=not self.no_wait, json_=self.json_)
            return
        self._tell_all(place, self._each(place, views) if views else [])

    @property
    def _at_once(self) -> bool:
        return bool(self.given.get("at_once"))

    @property
    def _chosen_by(self) -> dict[str, str]:
        """The filter of a bulk operation, for people."""
        found = {f"property {name}": str(value) for name, value in (self.chosen["properties"] or {}).items()}
        for name, value in self.chosen.items():
            if value and name != "properties":
                found[name] = value if isinstance(value, str) else ", ".join(map(str, value))
        return found

    def _each(self, place: Groups, found: Sequence[InGroup]) -> list[Any]:
        done = place.each(self.action, found, at_once=self._at_once, **self._who)
        return list(shown_progress(done, len(found), self.action.command, quiet=self.json_))

    def _tell_all(self, place: Groups, done: Sequence[Any]) -> None:
        if self.json_:
            print_object(place.acted, {"action": self.action, "dry_run": False, "groups": done})
        else:
            tell(*map(_line, done))
            queued = sum(getattr(one, "queued", False) for one in done)
            obeyed = sum(not isinstance(one, Refused) for one in done) - queued
            later = f", {queued:,} queued" if queued else ""
            click.echo(f"{obeyed:,} of {counted(len(done), 'group')}: {self.action.command}{later}")
        no_if_refused(done)


def acts(
    group: click.Group, action: Action, *more: Callable[..., Any], dry_run: str = "", tables: Sequence[Table[Any]] = ()
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function the command of an action on groups; it gets what was asked for, and the values of further options (`more`).

    `dry_run`: the help of this option; `tables`: what JSON has besides.
    """
    verb = VERBS[action]
    options: list[Callable[..., Any]]
    own = [_option(one) for one in verb.takes]
    pipelines_too = (which_pipeline,) if verb.in_pipelines else ()
    of_pipelines = (pipelines.OPERATION, pipelines.ACTED) if verb.in_pipelines else ()
    if verb.in_bulk:
        told = dry_run or "With --all: change nothing; list the groups. With --pipeline also of one group."
        options = [
            click.argument("keys", metavar="[GROUP…]", nargs=-1),
            *own,
            *more,
            flag("--all", "all_", "Act on all groups that match the options and whose state allows it."),
            options_of(groups, without=("limit",)),
            flag("--dry-run", told),
            flag("--yes", "With --all: don't ask for confirmation."),
            flag(
                "--no-wait",
                "With --all: don't wait for the end; `seriatim serve` and workers do it. See `seriatim bulk`.",
            ),
        ]
        json_ = json_option("Print JSON.", acted.OPERATION, acted.ACTED, BULK_OPERATIONS, *of_pipelines, *tables)
    else:
        options = [
            click.argument("keys", metavar="GROUP", nargs=1, callback=lambda _, __, key: (key,)),
            its_queue,
            *own,
            *more,
            flag("--dry-run", "With --pipeline: change nothing; tell what would be done."),
        ]
        json_ = json_option("Print one JSON object.", acted.OPERATION, *of_pipelines[:1])

    def made(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def run(**options: Any) -> None:
            chosen = {name: options.pop(name) for name in _FILTERS if name in options}
            given = {one.name: options.pop(one.name) for one in verb.takes}
            given = {
                name: value.read() if hasattr(value, "read") else value
                for name, value in given.items()
                if value not in (None, False)
            }
            of_asked = {name: options.pop(name) for name in GroupCommand.__dataclass_fields__ if name in options}
            function(GroupCommand(action, given, chosen, **of_asked), **options)

        run.__doc__ = cleandoc(str(function.__doc__)) + (_OF_MANY if verb.in_bulk else "")
        return group.command(action.command)(together(*options, says_why, *pipelines_too, which_box, json_)(run))

    return made


def _option(one: Parameter) -> Callable[..., Any]:
    return click.option(one.option, one.name, help=one.help, required=one.needed, **_TYPES[one.kind])


def _line(done: Any) -> str:
    """What became of a group, in a line."""
    place = f"{done.queue}, group {done.group}"
    if isinstance(done, Refused):
        return f"{place}: refused, {done.why}"
    if getattr(done, "queued", False):
        return f"{place}: queued as {done.operation_id}; see seriatim log --pipeline {done.pipeline}"
    counts = ((done.released, "released"), (done.set_aside, "set aside"))
    told = "".join(f", {count:,} {what}" for count, what in counts if count)
    told += "".join(
        f", {missing_numbers(one.first, one.last)} skipped" for one in done.events if one.kind == "hole_skipped"
    )
    would = "would be " if getattr(done, "dry_run", False) else ""
    more = ", and more follow" if getattr(done, "more", False) else ""
    later = "" if done.obeyed or would else ", at the end of the turn"
    closing = ", closing" if done.action is Action.CLOSE and done.after != "closed" else ""
    return f"{place}: {would}{done.before} → {done.after}{closing}{told}{more}{later}"
