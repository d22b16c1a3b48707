-- Return the messages that are kept beside their queues, because another one has their number.
-- is: sql, stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_besides(
    of_name text, at_most integer, OUT queue text, OUT queue_id integer, OUT session text, OUT number bigint,
    OUT message_id text
) RETURNS SETOF record
BEGIN ATOMIC
    SELECT place.queue, place.queue_id, one.session, one.number, one.message_id
    FROM {schema}.region_queues AS regional
    JOIN {schema}.queues AS place USING (queue_id)
    JOIN {schema}.region_numbers AS one USING (queue_id)
    WHERE regional.name = of_name AND one.beside AND NOT one.withdrawn
    ORDER BY one.published_at, one.message_id LIMIT at_most;
END;
