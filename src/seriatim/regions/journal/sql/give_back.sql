-- End claims before their leases do; those that are another's by now stay.
WITH held AS (
    SELECT known.name, known.queue, known.session, known.claim, known.version
    FROM unnest(
        %(names)s::text[], %(queues)s::text[], %(sessions)s::text[], %(claims)s::text[], %(versions)s::bigint[]
    ) AS one (name, queue, session, claim, version)
    JOIN {schema}.sessions AS known
        ON known.name = one.name AND known.queue = one.queue AND known.session = one.session
        AND known.state = {session.WORKING} AND known.claim = one.claim AND known.version = one.version
    ORDER BY known.name, known.queue, known.session
    FOR UPDATE OF known
)
UPDATE {schema}.sessions AS known
SET state = {session.IDLE}, claim = NULL, region = NULL, lease_until = NULL
FROM held
WHERE known.name = held.name AND known.queue = held.queue AND known.session = held.session
    AND known.state = {session.WORKING} AND known.claim = held.claim AND known.version = held.version
