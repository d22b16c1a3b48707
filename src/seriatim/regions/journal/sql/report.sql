-- Note since when nothing older is in a region's outbox, or can come into its queues.
INSERT INTO {schema}.regions (name, region, incarnation, outbox_since, queue_since, reported_at)
VALUES (
    %(name)s, %(region)s, %(incarnation)s, {STATEMENT_US} - %(outbox_age)s::bigint,
    least({STATEMENT_US} - %(queue_age)s::bigint, %(others)s::bigint), {STATEMENT_US}
)
ON CONFLICT (name, region) DO UPDATE SET
    incarnation = excluded.incarnation, outbox_since = excluded.outbox_since, queue_since = excluded.queue_since,
    reported_at = excluded.reported_at
WHERE regions.incarnation <= excluded.incarnation
