"""Queues that pipelines read: one in order, one without."""

from __future__ import annotations

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed


def define(box):
    """Orders by customer and version go to both, `orders` and `loose`."""
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("loose", policy=sq.Unordered()),
        sq.Subscription("all", where="type = 'order'", to="orders"),
        sq.Subscription("also", where="type = 'order'", to="loose"),
    )
    return box


def feed(box, queue="orders", *, takes_over=False):
    """One run of the pipeline that reads it."""
    return PipelineFeed(box.dsn, box.schema, queue=queue, pipeline="capture", takes_over=takes_over)
