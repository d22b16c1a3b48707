-- The workers at their last heartbeats. `in_hand`: a list of the messages that they have worked on longest, each with
-- its `group`, `message_id`, `attempt`, and `since` when.
CREATE OR REPLACE VIEW {schema}.workers AS
SELECT
    place.queue, known.name, known.host, known.pid, known.role, known.reads AS is_reader, known.mode, known.started_at,
    known.seen_at, extract(epoch FROM clock_timestamp() - known.seen_at)::double precision AS silent_s,
    known.seen_at <= clock_timestamp() - {schema}.silence() AS is_silent,
    known.capacity, known.threads, known.run_length, known.rate, known.busy,
    -- By the keys of the tables, whatever sizes the planner takes them for; and only for readers of the column.
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
