-- End all claims.
WITH held AS (
    SELECT name, queue, session
    FROM {schema}.sessions
    WHERE state = {session.WORKING}
    ORDER BY name, queue, session
    FOR UPDATE
)
UPDATE {schema}.sessions AS known
SET state = {session.IDLE}, claim = NULL, region = NULL, lease_until = NULL
FROM held
WHERE known.name = held.name AND known.queue = held.queue AND known.session = held.session
    AND known.state = {session.WORKING}
