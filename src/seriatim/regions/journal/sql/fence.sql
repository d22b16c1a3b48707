-- Note the incarnation of a region's box; what an earlier one has reported counts no more.
INSERT INTO {schema}.regions (name, region, incarnation) VALUES (%(name)s, %(region)s, %(incarnation)s)
ON CONFLICT (name, region) DO UPDATE SET
    incarnation = excluded.incarnation, outbox_since = NULL, queue_since = NULL, reported_at = NULL
WHERE regions.incarnation < excluded.incarnation
