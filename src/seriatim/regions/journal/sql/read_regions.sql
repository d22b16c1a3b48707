-- The regions of a name.
SELECT region, incarnation, outbox_since, queue_since, reported_at FROM {schema}.regions WHERE name = %(name)s ORDER BY region
