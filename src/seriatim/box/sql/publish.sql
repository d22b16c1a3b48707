-- Purpose: take messages in; those published before are left out. Their tickets are given at commit.
-- Caller: Session.publish; several times for a batch of very large messages.
-- Locks: none beyond its own rows. Two transactions with the same message id wait for each other on it.
-- Index: message_ids_pkey.
WITH incoming AS MATERIALIZED (
    SELECT * FROM unnest(
        %(message_ids)s::text[], %(types)s::text[], %(locations)s::text[], %(content_types)s::text[],
        %(contexts)s::text[], %(bodies)b::bytea[]
    ) WITH ORDINALITY AS message (message_id, type, location, content_type, context, body, place)
), fresh AS (
    -- In one order for all publishers, so that two of them never wait for each other crosswise.
    INSERT INTO {schema}.message_ids (message_id)
    SELECT message_id FROM incoming ORDER BY message_id
    ON CONFLICT DO NOTHING
    RETURNING message_id
), placed AS MATERIALIZED (
    SELECT message_id, location, row_number() OVER (PARTITION BY location ORDER BY place) - 1 AS position
    FROM incoming JOIN fresh USING (message_id)
), arrived AS (
    INSERT INTO {schema}.arrivals (location, count)
    SELECT location, count(*) FROM placed GROUP BY location
    RETURNING arrival_id, location
)
INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body)
SELECT arrival_id, position, message_id, type, content_type, context::jsonb, body
FROM placed JOIN arrived USING (location) JOIN incoming USING (message_id, location)
