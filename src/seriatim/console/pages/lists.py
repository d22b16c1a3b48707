"""The pages that are a list, with what people read of it."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.lists import TO_GROUP, TO_MESSAGE, list_page
from seriatim.console.page import Asked
from seriatim.operations import (
    bulk_operations,
    connections,
    dead_letters,
    dialogs,
    events,
    faults,
    links,
    messages,
    schedules,
    set_aside,
    subscriptions,
)
from seriatim.operations.tables.bulk import BULK_OPERATIONS
from seriatim.operations.tables.connections import CONNECTION
from seriatim.operations.tables.dead_letters import DEAD_LETTERS
from seriatim.operations.tables.dialogs import DIALOGS
from seriatim.operations.tables.events import EVENTS
from seriatim.operations.tables.faults import FAULTS
from seriatim.operations.tables.links import LINKS, STREAMS
from seriatim.operations.tables.messages import MESSAGES, SET_ASIDE
from seriatim.operations.tables.schedules import SCHEDULES
from seriatim.operations.tables.subscriptions import SUBSCRIPTIONS
from seriatim.operations.tables.table import text_only


def _how_far(one: dialogs.DialogView) -> str | None:
    """How far another box has acknowledged its messages, and the error with which it was ended."""
    told = []
    if one.link is not None:
        where = f"link {one.link}, box {one.far_box}" + ("" if one.stream is None else f", stream {one.stream}")
        told.append(f"{where}: acknowledged below {one.acknowledged}")
    if one.unanswered_since is not None:
        told.append(f"unanswered since {one.unanswered_since.astimezone():%Y-%m-%d %H:%M:%S}")
    if one.error_code is not None:
        told.append(f"error {one.error_code}: {one.error or 'without a text'}")
    return "; ".join(told) or None


_DIALOGS = DIALOGS.extended(
    "A side of a dialog",
    text_only(
        "how far", _how_far, "how far another box has acknowledged its messages, or the error with which it was ended"
    ),
)
_SUBSCRIPTIONS = SUBSCRIPTIONS.extended(
    "A subscription",
    text_only("starts", lambda one: one.declared.starts, "the handler of the instances that it starts"),
)

PAGES = (
    list_page(
        "Bulk operations",
        bulk_operations.bulk_operations,
        BULK_OPERATIONS,
        about="Actions on many groups, newest first. They go on when the page or the terminal that began them is closed.",
        links={"operation": lambda one: ("bulk-operations", str(one.bulk_id))},
        nothing="There are no bulk operations. What is done to few groups is in the operator log only.",
        section="Work",
    ),
    list_page(
        "Dead letters",
        dead_letters.page,
        DEAD_LETTERS,
        by_error=dead_letters.dead_letters_by_error,
        links={"number": TO_MESSAGE["message"], **TO_MESSAGE, **TO_GROUP},
        nothing="There are no dead letters.",
        template="dead_letters.html",
        section="Messages",
    ),
    list_page(
        "Faults",
        faults.faults,
        FAULTS,
        by_error=faults.faults_by_error,
        about="What handlers failed at, newest first.",
        links={"fault": lambda one: ("faults", str(one.fault_id)), **TO_MESSAGE, **TO_GROUP},
        nothing="No handler has failed.",
        section="Messages",
    ),
    # All that is set aside but dead letters.
    list_page(
        "Late or invalid",
        set_aside.set_aside,
        SET_ASIDE,
        path="set-aside",
        caption="Late or invalid messages",
        rows=Asked.unnamed,
        links={**TO_MESSAGE, **TO_GROUP},
        nothing="No message is late or invalid.",
        hint="A queue sets a message aside if its number came already or was given up, or if it has no number.",
        template="set_aside.html",
        section="Messages",
    ),
    list_page(
        "Unrouted",
        messages.unrouted,
        MESSAGES,
        shown=MESSAGES.only("message", "type", "ticket", "reason", "parts"),
        caption="Unrouted messages",
        rows=Asked.unnamed,
        links=TO_MESSAGE,
        nothing="Nothing is unrouted.",
        hint="Each message was matched by a subscription, or named its queue.",
        template="unrouted.html",
        section="Messages",
    ),
    # A transaction that was forgotten is ended with its connection.
    list_page(
        "Connections",
        connections.connections,
        CONNECTION,
        nothing="No application is connected.",
        template="connections.html",
        section="Box",
    ),
    list_page(
        "Dialogs",
        dialogs.dialogs,
        DIALOGS,
        shown=_DIALOGS,
        about="Two services that exchange messages, in this box or in two: a line for each side here, oldest first. "
        "A message whose other side isn't there yet waits.",
        links={"unread": lambda one: ("groups", one.queue, str(one.group_id)) if one.unread else None},
        nothing="There are no dialogs.",
        hint=Markup(
            "An application begins one with <code>tx.begin_dialog</code>: <code>seriatim docs how-to/dialogs</code>."
        ),
        section="Box",
    ),
    list_page(
        "Events",
        events.events_and_holes,
        EVENTS,
        about=Markup(
            "What happened to groups besides the delivery of their messages, newest first. Holes are missing numbers, a conflict is a "
            "number that came again with another content, and void is a number that passed without a message; "
            "all words: <code>seriatim docs reference/events</code>. Failures of handlers are among the faults, and what operators did is "
            "in the operator log."
        ),
        links=TO_GROUP,
        nothing="There are no events.",
        hint="A group that waits for a missing number, is closed or suspended, or gets a number twice, has one.",
        section="Box",
    ),
    list_page(
        "Links",
        links.status,
        LINKS,
        about="The links to other boxes. Follow one to its streams: what is on the way, and why it waits.",
        links={"link": lambda one: ("transmission", {"link": one.link})},
        nothing="This box has no links to other boxes.",
        hint=Markup("Define one with <code>sq.Link</code>: <code>seriatim docs tutorials/two-boxes</code>."),
        section="Box",
    ),
    list_page(
        "Schedules",
        schedules.schedules,
        SCHEDULES,
        links={"last message": lambda one: ("messages", one.last_message) if one.last_message else None},
        nothing="There are no schedules.",
        hint=Markup("Define one with <code>sq.Schedule</code>: <code>seriatim docs how-to/scheduled-publish</code>."),
        usual=("waiting",),
        template="schedules.html",
        section="Box",
    ),
    list_page(
        "Subscriptions",
        subscriptions.subscriptions,
        SUBSCRIPTIONS,
        shown=_SUBSCRIPTIONS,
        links={"queue": lambda one: ("queues", one.declared.to)},
        nothing="There are no subscriptions.",
        hint=Markup("Define one with <code>sq.Subscription</code>: <code>seriatim docs how-to/subscribe</code>."),
        template="subscriptions.html",
        section="Box",
    ),
    list_page(
        "Transmission",
        links.transmission,
        STREAMS,
        caption="Streams",
        about="What goes over links: a stream for each group and direction, those that wait first. "
        "Messages of dialogs that wait are on the page of dialogs.",
        links={"link": lambda _: ("links",)},
        nothing="No message has gone over a link yet.",
        hint=Markup(
            "Messages for a queue with <code>at</code> go to another box: <code>seriatim docs tutorials/two-boxes</code>."
        ),
        section="Box",
    ),
)
