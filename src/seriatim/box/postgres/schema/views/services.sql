-- The services, for roles with a right on their queue, or with the right to send to them. `at`: the links to the boxes
-- of a service that is elsewhere; then it has no queue here.
CREATE OR REPLACE VIEW {schema}.services WITH (security_barrier) AS
SELECT
    known.service,
    place.queue,
    ARRAY(SELECT jsonb_array_elements_text(coalesce(known.definition -> 'contracts', '[]'))) AS contracts,
    coalesce((known.definition ->> 'retention')::boolean, FALSE) AS retention,
    ARRAY(SELECT jsonb_array_elements_text(coalesce(known.definition -> 'at', '[]'))) AS at
FROM {schema}.known_services AS known LEFT JOIN {schema}.queues AS place USING (queue_id)
WHERE known.queue_id = ANY ((SELECT {schema}.sees('any'))::integer[])
    OR known.queue_id IS NULL AND known.service = ANY ((SELECT {schema}.sends_to())::text[]);
