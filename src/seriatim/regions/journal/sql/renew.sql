-- Renew the leases of claims; those that aren't told are another's by now.
-- Caller: claims.py. Index: the key.
UPDATE {schema}.sessions AS known
SET lease_until = {now} + held.lease
FROM unnest(
    %(names)s::text[], %(queues)s::text[], %(sessions)s::text[], %(claims)s::text[], %(versions)s::bigint[],
    %(leases)s::bigint[]
) AS held (name, queue, session, claim, version, lease)
WHERE known.name = held.name AND known.queue = held.queue AND known.session = held.session
    AND known.state = 1 AND known.claim = held.claim AND known.version = held.version
RETURNING known.claim
