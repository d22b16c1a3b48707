-- Purpose: `later`: until when the message of {0}, a row of message_places, is postponed, and how often it was.
LEFT JOIN LATERAL (
    SELECT one.postponed, CASE
        WHEN one.postponed_until = one.visible_at AND one.visible_at > clock_timestamp() THEN one.visible_at
    END AS postponed_until
    FROM {schema}.entries AS one JOIN {schema}.queues AS its USING (queue_id)
    WHERE one.arrival_id = {0}.arrival_id AND one.position = {0}.position AND its.queue = {0}.queue
    LIMIT 1
) AS later ON TRUE
