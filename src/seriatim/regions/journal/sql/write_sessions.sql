-- Write sessions whose locks the transaction has.
-- Caller: locked.py. Index: the key; the sessions are named twice, so that the planner doesn't read all sessions of a queue.
UPDATE {schema}.sessions AS known
SET
    done_through = new.done_through, sent_through = new.sent_through, state = new.state, version = new.version,
    claim = new.claim, region = new.region, lease_until = new.lease_until, hole_since = new.hole_since,
    forgotten_before = new.forgotten_before, take_overs = new.take_overs, conflicts = new.conflicts, used_at = new.used_at
FROM unnest(
    %(sessions)s::text[], %(done)s::bigint[], %(sent)s::bigint[], %(states)s::smallint[], %(versions)s::bigint[],
    %(claims)s::text[], %(regions)s::text[], %(leases)s::bigint[], %(holes)s::bigint[], %(forgotten)s::bigint[],
    %(take_overs)s::bigint[], %(conflicts)s::bigint[], %(used)s::bigint[]
) AS new (
    session, done_through, sent_through, state, version, claim, region, lease_until, hole_since, forgotten_before,
    take_overs, conflicts, used_at
)
WHERE known.name = %(name)s AND known.queue = %(queue)s AND known.session = ANY(%(sessions)s::text[])
    AND known.session = new.session
