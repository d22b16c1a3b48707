-- Write sessions whose locks the transaction has, so each of them is there.
INSERT INTO {schema}.sessions (
    name, queue, session, done_through, sent_through, state, version, claim, region, lease_until, hole_since, hole_through,
    forgotten_before, take_overs, conflicts, used_at
)
SELECT
    %(name)s, %(queue)s, new.session, new.done_through, new.sent_through, new.state, new.version, new.claim, new.region,
    new.lease_until, new.hole_since, new.hole_through, new.forgotten_before, new.take_overs, new.conflicts, new.used_at
FROM unnest(
    %(session)s::text[], %(done_through)s::bigint[], %(sent_through)s::bigint[], %(state)s::smallint[], %(version)s::bigint[],
    %(claim)s::text[], %(region)s::text[], %(lease_until)s::bigint[], %(hole_since)s::bigint[], %(hole_through)s::bigint[],
    %(forgotten_before)s::bigint[], %(take_overs)s::bigint[], %(conflicts)s::bigint[], %(used_at)s::bigint[]
) AS new (
    session, done_through, sent_through, state, version, claim, region, lease_until, hole_since, hole_through,
    forgotten_before, take_overs, conflicts, used_at
)
ON CONFLICT (name, queue, session) DO UPDATE SET
    done_through = excluded.done_through, sent_through = excluded.sent_through, state = excluded.state,
    version = excluded.version, claim = excluded.claim, region = excluded.region, lease_until = excluded.lease_until,
    hole_since = excluded.hole_since, hole_through = excluded.hole_through, forgotten_before = excluded.forgotten_before, take_overs = excluded.take_overs,
    conflicts = excluded.conflicts, used_at = excluded.used_at
