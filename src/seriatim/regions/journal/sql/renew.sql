-- Renew the leases of claims; those that aren't told are another's by now.
WITH held AS (
    SELECT known.name, known.queue, known.session, known.claim, known.version, one.lease
    FROM unnest(
        %(names)s::text[], %(queues)s::text[], %(sessions)s::text[], %(claims)s::text[], %(versions)s::bigint[],
        %(leases)s::bigint[]
    ) AS one (name, queue, session, claim, version, lease)
    JOIN {schema}.sessions AS known
        ON known.name = one.name AND known.queue = one.queue AND known.session = one.session
        AND known.state = {session.WORKING} AND known.claim = one.claim AND known.version = one.version
    ORDER BY known.name, known.queue, known.session
    FOR UPDATE OF known
)
UPDATE {schema}.sessions AS known
SET lease_until = {STATEMENT_US} + held.lease
FROM held
WHERE known.name = held.name AND known.queue = held.queue AND known.session = held.session
    AND known.state = {session.WORKING} AND known.claim = held.claim AND known.version = held.version
RETURNING known.claim
