CREATE OR REPLACE VIEW {schema}.seen_spool WITH (security_barrier) AS
SELECT
    stored.arrival_id,
    stored.position,
    stored.message_id,
    stored.type,
    stored.content_type,
    CASE WHEN kept.with_body THEN stored.context END AS context,
    CASE WHEN kept.with_body THEN stored.body END AS body,
    stored.received_at,
    stored.destinations,
    stored.visible_at,
    CASE WHEN kept.with_body THEN stored.property_types END AS property_types,
    stored.parts,
    stored.id_space,
    stored.serial
FROM {schema}.spool AS stored CROSS JOIN LATERAL (
    SELECT bool_or(one.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])) AS with_body
    FROM (
        SELECT queue_id FROM {schema}.entries AS entry
        WHERE entry.arrival_id = stored.arrival_id AND entry.position = stored.position
        UNION ALL
        SELECT queue_id FROM {schema}.aside AS gone
        WHERE gone.arrival_id = stored.arrival_id AND gone.position = stored.position
        UNION ALL
        SELECT queue_id FROM {schema}.history AS done
        WHERE done.arrival_id = stored.arrival_id AND done.position = stored.position
    ) AS one
    WHERE one.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
    HAVING count(*) > 0
) AS kept;
