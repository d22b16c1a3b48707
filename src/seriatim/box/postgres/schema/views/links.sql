-- The links, for roles with a right on a queue, or to send to a service, to which they lead. `has_address`: this box
-- calls the other one. `version`: the highest of the protocol that the other box is known to read.
CREATE OR REPLACE VIEW {schema}.links WITH (security_barrier) AS
SELECT
    known.link,
    known.peer AS box,
    known.definition IS NOT NULL AS has_address,
    CASE WHEN known.role IS NOT NULL THEN pg_get_userbyid(known.role::oid)::text END AS role,
    encode(known.public_key, 'hex') AS public_key,
    known.queues,
    known.services,
    known.version,
    known.sent,
    known.received,
    known.replayed,
    known.restored,
    known.sent_at AS last_sent,
    known.received_at AS last_received,
    known.failed_at AS last_failed,
    known.last_error
FROM {schema}.known_links AS known
WHERE (SELECT {schema}.sees_all()) OR EXISTS (
    SELECT FROM {schema}.queues AS place
    WHERE place.definition ->> 'at' = known.link AND place.queue_id = ANY ((SELECT {schema}.sees('any'))::integer[])
) OR EXISTS (
    SELECT FROM {schema}.known_services AS place
    WHERE place.definition -> 'at' ? known.link AND place.service = ANY ((SELECT {schema}.sends_to())::text[])
);
