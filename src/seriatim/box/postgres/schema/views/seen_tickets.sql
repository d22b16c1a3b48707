CREATE OR REPLACE VIEW {schema}.seen_tickets WITH (security_barrier) AS
SELECT run.* FROM {schema}.tickets AS run
WHERE EXISTS (
    SELECT FROM {schema}.entries AS entry
    WHERE entry.arrival_id = run.arrival_id AND entry.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
) OR EXISTS (
    SELECT FROM {schema}.aside AS gone
    WHERE gone.arrival_id = run.arrival_id AND gone.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
) OR EXISTS (
    SELECT FROM {schema}.history AS done
    WHERE done.arrival_id = run.arrival_id AND done.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);
