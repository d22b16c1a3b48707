-- Sessions, under their locks, in one order for all.
SELECT
    known.session, known.done_through, known.sent_through, known.state, known.version, known.claim, known.region,
    known.lease_until, known.hole_since, known.hole_through, known.forgotten_before, known.take_overs, known.conflicts,
    known.used_at,
    journal.incarnation, journal.claim_floor, {STATEMENT_US} AS now
FROM {schema}.sessions AS known
CROSS JOIN {schema}.journal AS journal
WHERE known.name = %(name)s AND known.queue = %(queue)s AND known.session = ANY(%(sessions)s::text[])
ORDER BY known.session
FOR UPDATE OF known
