"""The lines of the log: each tells an event, with its fields. Here is each event's logger and text; the reference says what it means."""

from __future__ import annotations

import logging
from typing import Any

#: By logger and event: the text, in which ``%(name)s`` is a field.
EVENTS = {
    "seriatim.box": {
        "box_awaited": "%(_where)s: %(error)s; waiting for it (%(seconds).0f s so far)",
        "box_away": "%(_place)s: no connection can be made, and it is tried again and again: %(error)s",
        "box_back": "%(_box)s is there after %(seconds).0f s",
        "box_reachable": "%(_place)s: connections can be made again",
        "dialog_not_fired": "the timer or the end of the lifetime of dialog %(dialog)s fails, and is tried again: %(error)s",
        "dialog_unended": "a receiver of queue %(queue)r completes the %(_type)s of a dialog and doesn't end its own side, service "
        "%(service)r: the dialog stays; end it with tx.end(message.dialog.handle)",
        "embedded_not_back": "the embedded PostgreSQL is not back: %(error)s",
        "listening_retried": "listening for messages failed, and is tried again: %(error)s",
        "not_looked_at": "%(_where)s can't be looked at",
        "publish_awaits_room": "publishing waits for room, for %(seconds).0f s at most: %(_error)s",
        "publisher_slip": "%(error)s (%(_remedy)s); this process logs it once",
        "receiving_retried": "receiving is tried again: %(error)s",
        "request_one_way": (
            "a request goes over link %(link)r, by which the other box may send to no queue here, so no reply can come "
            "back (name a queue for the replies in the queues of the Link); this process logs it once"
        ),
    },
    "seriatim.box.pipelines.staging": {"batch_awaits_room": "queue %(queue)r is full: batch %(batch)d waits for room"},
    "seriatim.box.postgres.migration_locks": {"migration_waits": "%(schema)s: the migration waits for %(waits_for)s"},
    "seriatim.bulk": {
        "bulk_group_by_group": "bulk operation %(bulk)s goes on group by group: %(error)s",
        "bulk_group_failed": "bulk operation %(bulk)s failed at a group of queue %(queue)r",
    },
    "seriatim.console": {
        "bulk_interrupted": "bulk operations don't go on here: %(error)s",
        "console_box_away": "the box doesn't answer: %(error)s",
        "page_failed": "a page failed: %(_method)s %(path)s",
    },
    "seriatim.dialogs": {
        "poison": "queue %(queue)r, group %(group)r is suspended after %(_rollbacks)d rollbacks in a row"
    },
    "seriatim.failures": {
        "attempt_failed": "%(_place)s, message %(_message)s: attempt %(attempt)d%(_of)s failed (%(kind)s): %(error)s; "
        "%(_next)s%(_traceback)s",
        "failures_left_out": (
            "%(failures)d more failures within %(_within_s).1f s are left out here, %(_for_good)d of them for good; "
            "`seriatim faults` lists all"
        ),
    },
    "seriatim.http": {
        "http_failed": "a request failed",
        "http_listening": "answering callers at %(address)s",
        "http_without_tls": "tokens are sent without TLS at %(address)s: only a proxy on the way may be able to read them",
    },
    "seriatim.judge": {
        "judging_interrupted": "judging is interrupted: %(error)s",
        "judging_not_allowed": "this process doesn't judge for receivers in SQL: %(_error)s",
    },
    "seriatim.link": {
        "link_failed": "link %(link)s: %(_error)s",
        "link_groups": "link %(link)s: %(_text)s",
        "link_listening": "listening for other boxes at %(address)s",
        "not_transmitted": "nothing is transmitted: %(error)s",
    },
    "seriatim.listening": {"connection_refused": "%(_where)s: %(error)s"},
    "seriatim.pipeline": {
        "batches_not_seen": (
            "pipeline %(pipeline)s: Spark's report of %(_of)s was not seen, so what the router received in them isn't "
            "counted; what is held, delivered and set aside is as it was"
        ),
        "driver_replaced": "pipeline %(pipeline)s: the driver %(_how)s, and is started again in %(seconds)g s",
        "input_file_not_read": "pipeline %(pipeline)s: %(_file)s",
        "pipeline_active": "pipeline %(pipeline)s is active in region %(region)s",
        "pipeline_lease_runs_out": "pipeline %(pipeline)s: the lease couldn't be given back, and runs out: %(error)s",
        "pipeline_passive": "pipeline %(pipeline)s in region %(region)s is %(_is)s",
        "pipeline_undecided": "pipeline %(pipeline)s in region %(region)s: %(_is)s",
        "tally_lost": "%(_file)s %(_noun)s; what is held, delivered and set aside is as it was",
    },
    "seriatim.port": {
        "port_began": "port %(port)s reads %(_source)s",
        "port_ended": "port %(port)s has ended: %(error)s",
        "port_full": "port %(port)s takes no more: %(error)s",
        "port_interrupted": "port %(port)s: %(error)s; it is tried again",
        "port_listening": "port %(port)s listens at %(address)s",
        "port_lost": "port %(port)s: the box has another holder or position of %(_source)s, which is claimed again",
        "port_message_refused": "port %(port)s: the box refuses a message, which is kept as unrouted: %(error)s",
        "port_order": "port %(port)s: %(error)s",
        "port_remark": "port %(port)s: %(error)s",
    },
    "seriatim.regions": {
        "region_conflicts_settled": "region %(region)s: %(messages)d messages had the numbers of others",
        "region_copied": "region %(region)s: %(_counted)s copied to the other region, %(over)d over",
        "region_copies_left_out": "copies are left out, because their ids were published in this box: %(_ids)s",
        "region_copies_wait": "%(messages)d messages of region %(region)s wait: %(_why)s",
        "region_not_tended": "%(_text)s",
        "region_not_voting": "region %(region)s doesn't vote yet: %(error)s",
        "region_votes_again": "region %(region)s was restored, and votes again as incarnation %(incarnation)d",
    },
    "seriatim.serve": {
        "readers": "queue %(queue)r: %(_counted)s here",
        "readers_fail": "queue %(queue)r: readers can't work: %(error)s; others begin in %(seconds)g s",
        "schedule_fails": "schedule %(schedule)r publishes nothing: %(error)s",
        "schedules_not_published": "%(error)s",
        "serving_interrupted": "%(error)s",
    },
    "seriatim.spark": {
        "due_not_told": "time-outs may fire late: what is due can't be told to Spark",
        "empty_partitions": (
            "%(partitions)d partitions for %(buckets)d buckets: %(_empty)d stay empty, and cost time in every batch; "
            "set %(_setting)s to the number of your cores before the first start: the checkpoint keeps it"
        ),
        "rows_left_out": "%(_line)s",
        "spark_ended": "Spark has ended",
    },
    "seriatim.worker": {
        "chore_failed": "%(error)s",
        "claim_lost": "%(worker)s: %(error)s",
        "claims_not_renewed": "the claims of queue %(queue)r couldn't be renewed: %(error)s",
        "clocks_apart": "%(_seconds)s; the box goes by the database's",
        "copies_not_completed": "queue %(queue)r: what is done couldn't be completed in the box of region %(region)s: %(error)s",
        "copy_set_aside": "queue %(queue)r, session %(group)r: message %(message_id)s is set aside in region %(region)s: %(why)s",
        "dialog_failed": "the dialog %(dialog)s of %(service)r with %(far_service)r has failed: %(code)s, %(_text)s",
        "end_not_recorded": "%(_failed)s: %(error)s",
        "failure_not_published": "a failure couldn't be published: %(error)s",
        "failure_of_failure": "a failure of a failure isn't published: %(_error_class)s: %(error)s",
        "failures_not_seen": "failures aren't published of queues that the role may not receive from: %(failures)d",
        "handler_called_again": "%(worker)s: the handler is called again: %(error)s",
        "heartbeat_failed": "a heartbeat failed",
        "journal_away": "queue %(queue)r: nobody works, because the journal is away: %(error)s",
        "journal_back": "queue %(queue)r: the journal is back, and the work goes on",
        "lease_lost": "%(_error)s",
        "lease_not_given_back": "%(worker)s: the lease %(lease)d couldn't be given back, and runs out: %(error)s",
        "leases_not_renewed": "the leases of queue %(queue)r couldn't be renewed: %(error)s",
        "no_heartbeat": "no heartbeat: %(error)s",
        "process_frozen": "process %(pid)d is frozen, and is killed: %(error)s",
        "process_replaced": "process %(pid)d %(_ended)s, and is replaced",
        "region_awaited": "%(_doing)s can't be reached, and is waited for: %(error)s",
        "regional_failure": "%(worker)s: queue %(queue)r, session %(group)r, number %(number)d: %(_error_class)s: %(error)s; %(then)s",
        "settings_obeyed": "queue %(queue)r: this process obeys the settings: %(_settings)s",
        "turn_failed": "%(worker)s: a turn failed",
        "turn_lost_lease": "%(worker)s: %(_error)s",
        "turn_not_ended": "%(worker)s: %(error)s",
        "turn_too_long": "%(worker)s: a turn of queue %(queue)r, group %(group)r took longer than %(_limit_s)g s",
        "worker_waits": "%(worker)s: %(error)s",
    },
}
_TOLD = {event: (logging.getLogger(name), text) for name, texts in EVENTS.items() for event, text in texts.items()}


class _EventLog:
    """A field that is None is left out, an error becomes its text, and a name that begins with ``_`` is for the text alone."""

    def log(self, level: int, event: str, /, *, exc_info: Any = None, stacklevel: int = 2, **about: object) -> None:
        logger, text = _TOLD[event]
        fields = {
            name: str(value) if isinstance(value, Exception) else value
            for name, value in about.items()
            if value is not None and not name.startswith("_")
        }
        extra = fields | {"event": event}
        # A text without values is no format: logging gets no mapping then.
        logger.log(level, text, *([about] if about else ()), exc_info=exc_info, extra=extra, stacklevel=stacklevel)

    def debug(self, event: str, /, **about: object) -> None:
        self.log(logging.DEBUG, event, stacklevel=3, **about)

    def info(self, event: str, /, **about: object) -> None:
        self.log(logging.INFO, event, stacklevel=3, **about)

    def warning(self, event: str, /, **about: object) -> None:
        self.log(logging.WARNING, event, stacklevel=3, **about)

    def error(self, event: str, /, **about: object) -> None:
        self.log(logging.ERROR, event, stacklevel=3, **about)

    def exception(self, event: str, /, **about: object) -> None:
        self.log(logging.ERROR, event, exc_info=True, stacklevel=3, **about)


LOG = _EventLog()
