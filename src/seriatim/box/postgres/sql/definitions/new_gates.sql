-- Purpose: the queues that get a gate, which they didn't have before these definitions.
-- Index: ways_pkey. All queues are read.
SELECT place.queue, place.queue_id, gate.queue AS gate, gate.queue_id AS gate_id
FROM {schema}.queues AS place JOIN {schema}.queues AS gate ON gate.queue = place.definition ->> 'gate'
WHERE NOT EXISTS (
    SELECT FROM {schema}.ways AS way
    WHERE way.queue_id = place.queue_id AND way.gate_id = gate.queue_id AND way.is_origin
)
ORDER BY place.queue
