-- Record which queues lead to which gate. The caller has the lock of the definitions.
CREATE OR REPLACE FUNCTION {schema}.note_ways() RETURNS void
AS $function$
BEGIN
    DELETE FROM {schema}.ways;
    INSERT INTO {schema}.ways (queue_id, gate_id, origin, is_origin)
    SELECT way.queue_id, gate.queue_id, place.queue, way.queue_id = place.queue_id
    FROM {schema}.queues AS place
    JOIN {schema}.queues AS gate ON gate.queue = place.definition ->> 'gate'
    JOIN {schema}.queues AS way
        ON way.queue_id IN (place.queue_id, gate.queue_id) OR place.definition -> 'through' ? way.queue;
END
$function$;
