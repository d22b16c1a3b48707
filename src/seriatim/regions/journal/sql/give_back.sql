-- End claims before their leases do; those that are another's by now stay.
-- Caller: claims.py. Index: the key.
UPDATE {schema}.sessions AS known
SET state = 0, claim = NULL, region = NULL, lease_until = NULL
FROM unnest(
    %(names)s::text[], %(queues)s::text[], %(sessions)s::text[], %(claims)s::text[], %(versions)s::bigint[]
) AS held (name, queue, session, claim, version)
WHERE known.name = held.name AND known.queue = held.queue AND known.session = held.session
    AND known.state = 1 AND known.claim = held.claim AND known.version = held.version
