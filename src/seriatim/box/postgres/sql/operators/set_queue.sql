-- Purpose: set or unset some settings of a queue, those named in `changed`; the others stay.
-- Locks: the row of the queue's settings.
-- Index: queue_settings_pkey.
INSERT INTO {schema}.queue_settings AS known (queue_id, workers, in_flight, rate, run_length, set_by)
VALUES (
    %(queue_id)s, %(workers)s::integer, %(in_flight)s::integer, %(rate)s::double precision, %(run_length)s::integer,
    %(actor)s
)
ON CONFLICT (queue_id) DO UPDATE SET
    workers = CASE WHEN 'workers' = ANY (%(changed)s::text[]) THEN excluded.workers ELSE known.workers END,
    in_flight = CASE WHEN 'in_flight' = ANY (%(changed)s::text[]) THEN excluded.in_flight ELSE known.in_flight END,
    rate = CASE WHEN 'rate' = ANY (%(changed)s::text[]) THEN excluded.rate ELSE known.rate END,
    run_length = CASE WHEN 'run_length' = ANY (%(changed)s::text[]) THEN excluded.run_length ELSE known.run_length END,
    set_by = excluded.set_by,
    set_at = now()
RETURNING workers, in_flight, rate, run_length, set_by, set_at
