-- Heartbeats: what each process says every few seconds of its work on queues, and what is set for these, in the same call.

-- A worker: the work of one process on one queue. Not written to disk for sure: where PostgreSQL has to recover, processes
-- that live are here again within seconds. The process changes its row at each heartbeat, and nothing that is in an index.
CREATE UNLOGGED TABLE {schema}.known_workers (
    process_id uuid NOT NULL,
    queue_id integer NOT NULL,
    role name NOT NULL DEFAULT {schema}.caller(),
    name text NOT NULL CHECK (length(name) <= 1024),
    host text NOT NULL CHECK (length(host) <= 256),
    pid integer NOT NULL,
    -- Whether it is a reader of an activation.
    reads boolean NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    mode text NOT NULL CHECK (length(mode) <= 64),
    -- How many threads it would have, and how many it has, where all processes together may have fewer groups in flight.
    capacity integer NOT NULL CHECK (capacity BETWEEN 0 AND 100000),
    threads integer NOT NULL CHECK (threads >= 0),
    run_length integer NOT NULL,
    -- Messages a second; NULL: no limit.
    rate double precision,
    -- How many turns are under way; and those of them that have taken longest: the group, the entry of the message that the
    -- handler has, and for how many seconds.
    busy integer NOT NULL CHECK (busy >= 0),
    in_hand jsonb NOT NULL CHECK (length(in_hand::text) <= 1000000),
    PRIMARY KEY (process_id, queue_id)
) WITH (fillfactor = 50);
CREATE INDEX workers_of_queue ON {schema}.known_workers (queue_id);

-- A process that hasn't been seen for so long counts for nothing: it has missed two heartbeats.
CREATE FUNCTION {schema}.silence() RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN interval '15 s';

-- A heartbeat. The arrays are as long as there are queues. Answers for each queue that is there what is set for it; and where
-- processes share something, how many threads each of them would have (`capacities`), and which of these is the caller's.
CREATE FUNCTION {schema}.beat(
    of_process uuid, its_name text, its_host text, its_pid integer, reads boolean, of_queues text[], modes text[],
    own_capacities integer[], own_threads integer[], run_lengths integer[], rates double precision[], own_busy integer[],
    hands text[]
)
RETURNS TABLE (
    queue text, workers integer, in_flight integer, rate double precision, run_length integer, capacities integer[], place bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
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
        -- What can't be read is the caller's error, here, and not that of whoever looks.
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
        queue.queue, setting.workers, setting.in_flight, setting.rate, setting.run_length, beside.capacities, beside.place
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

-- A process has ended, or somebody has seen that it is dead.
CREATE FUNCTION {schema}.forget_process(of_process uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    DELETE FROM {schema}.known_workers AS known
    WHERE known.process_id = of_process AND (known.role = {schema}.caller() OR {schema}.is_owner());
END
$function$;

-- The workers as they were at their last heartbeats. `in_hand`: a list of what they have worked on longest, each with its
-- `group`, `message_id`, `attempt`, and `since` when.
CREATE VIEW {schema}.workers AS
SELECT
    place.queue, known.name, known.host, known.pid, known.role, known.reads AS is_reader, known.mode, known.started_at,
    known.seen_at, extract(epoch FROM clock_timestamp() - known.seen_at)::double precision AS silent_s,
    known.seen_at <= clock_timestamp() - {schema}.silence() AS is_silent,
    known.capacity, known.threads, known.run_length, known.rate, known.busy,
    -- By the keys of the tables, whatever the planner thinks of their sizes; and only for whoever reads it.
    coalesce((
        SELECT jsonb_agg(
            jsonb_build_object(
                'group', said.group, 'message_id', entry.message_id, 'attempt', entry.attempt + 1,
                'since', known.seen_at - make_interval(secs => said.seconds)
            ) ORDER BY said.seconds DESC
        )
        FROM jsonb_to_recordset(known.in_hand) AS said ("group" text, entry bigint, seconds double precision)
        LEFT JOIN LATERAL (
            SELECT
                one.attempt, (
                    SELECT stored.message_id FROM {schema}.spool AS stored
                    WHERE stored.arrival_id = one.arrival_id AND stored.position = one.position
                ) AS message_id
            FROM {schema}.entries AS one
            WHERE one.entry_id = said.entry AND one.queue_id = known.queue_id
            LIMIT 1
        ) AS entry ON TRUE
    ), '[]') AS in_hand
FROM {schema}.known_workers AS known JOIN {schema}.queues AS place USING (queue_id);
