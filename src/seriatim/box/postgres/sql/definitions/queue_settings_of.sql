-- Purpose: the settings of a queue; no row: it never had any.
-- Index: queues_queue_key, queue_settings_pkey.
SELECT setting.workers, setting.in_flight, setting.rate, setting.run_length, setting.set_by, setting.set_at
FROM {schema}.queue_settings AS setting JOIN {schema}.queues AS place USING (queue_id)
WHERE place.queue = %(queue)s
