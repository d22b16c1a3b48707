-- Store a heartbeat. The arrays have an item for each queue. Return for each existing queue its settings; and if
-- processes share a limit, how many threads each of them would have (`capacities`), and which of these is the
-- caller's.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.beat(
    of_process uuid, its_name text, its_host text, its_pid integer, reads boolean, of_queues text[], modes text[],
    own_capacities integer[], own_threads integer[], run_lengths integer[], rates double precision[],
    own_busy integer[],
    hands text[]
)
RETURNS TABLE (
    queue text, workers integer, in_flight integer, rate double precision, run_length integer, capacities integer[],
    place bigint
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = ANY (of_queues)
    ));
    INSERT INTO {schema}.known_workers AS known (
        process_id, queue_id, name, host, pid, reads, mode, capacity, threads, run_length, rate, busy, in_hand
    )
    SELECT
        of_process, queue.queue_id, its_name, its_host, its_pid, reads, said.mode, said.capacity, said.threads,
        said.run_length, said.rate, said.busy, hand.as_said
    FROM unnest(of_queues, modes, own_capacities, own_threads, run_lengths, rates, own_busy, hands)
        AS said (queue, mode, capacity, threads, run_length, rate, busy, hand)
    JOIN {schema}.queues AS queue USING (queue)
    CROSS JOIN LATERAL (
        -- An unreadable value is the caller's error, here, and not the reader's.
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'group', one.group, 'entry', one.entry, 'seconds', least(greatest(one.seconds, 0), 1e9)
        )), '[]') AS as_said
        FROM jsonb_to_recordset(said.hand::jsonb) AS one ("group" text, entry bigint, seconds double precision)
    ) AS hand
    ON CONFLICT (process_id, queue_id) DO UPDATE SET
        seen_at = clock_timestamp(), mode = excluded.mode, capacity = excluded.capacity, threads = excluded.threads,
        run_length = excluded.run_length, rate = excluded.rate, busy = excluded.busy, in_hand = excluded.in_hand
    WHERE known.role = excluded.role;
    RETURN QUERY
    SELECT
        queue.queue, setting.workers, setting.in_flight, setting.rate, setting.run_length, beside.capacities,
        beside.place
    FROM {schema}.queues AS queue
    LEFT JOIN {schema}.queue_settings AS setting ON setting.queue_id = queue.queue_id
    LEFT JOIN LATERAL (
        SELECT
            array_agg(one.capacity ORDER BY one.process_id) AS capacities,
            count(*) FILTER (WHERE one.process_id < of_process) AS place
        FROM {schema}.known_workers AS one
        WHERE one.queue_id = queue.queue_id
            AND (one.process_id = of_process OR one.seen_at > clock_timestamp() - {schema}.silence())
    ) AS beside ON reads OR setting.in_flight IS NOT NULL OR setting.rate IS NOT NULL
    WHERE queue.queue = ANY (of_queues);
END
$function$;
