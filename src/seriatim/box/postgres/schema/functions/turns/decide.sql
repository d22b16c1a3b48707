-- Store the decisions of a turn. The first arrays have an item for each of its groups, but `states` has the 11
-- numbers of each in turn; then come the entries that stay (held, or released and not handed out), those that are set
-- aside, and the requests that it has obeyed: the looks among them were there before it read. `remembered` is in
-- base64. `lives`, and the numbers and meanings of entries, are NULL where numbers are plain. The caller has locked all
-- groups.
--
-- Entries are joined to the ids by `= ANY (ARRAY[…])`, here and elsewhere: that can only mean to look them up. By `=`
-- the planner may read an index from end to end for its order, and does if a vacuum has found the table empty; and
-- until the next vacuum it is full of finished entries. All columns are requested that way: by a position alone it
-- would find every message, and does with a plan from a time of few.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.decide(
    of_queue integer, group_keys text[], states bigint[], skipped text[], arrivals bigint[], decided text[],
    due_ats bigint[], ready_ranks bigint[], remembered text[], kept_ids bigint[], kept_statuses text[],
    kept_arrivals bigint[], kept_ordinals bigint[], kept_late boolean[], kept_waits boolean[], aside_ids bigint[],
    aside_dispositions text[], aside_reasons text[], aside_ordinals bigint[], aside_counted bigint[],
    obeyed_ids bigint[], lives text[] DEFAULT NULL, kept_sequences bigint[] DEFAULT NULL, kept_meanings text[] DEFAULT NULL,
    aside_sequences bigint[] DEFAULT NULL, aside_meanings text[] DEFAULT NULL
) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('judge', of_queue, kept_ids || aside_ids);
    INSERT INTO {schema}.known_groups AS known (
        queue_id, group_key, incarnation, flags, first, next, mark, last, ordinal, since, reports, clock, skipped,
        arrivals, decided, due_at, ready_rank, suspects, suspect, remembered, lives
    )
    SELECT
        of_queue, new.group_key, (SELECT incarnation FROM {schema}.queues WHERE queue_id = of_queue), states[at + 1],
        states[at + 2], states[at + 3], states[at + 4], states[at + 5],
        states[at + 6], states[at + 7], states[at + 8], states[at + 9], new.skipped::bigint[], new.arrivals,
        new.decided::bigint[], new.due_at, new.ready_rank, states[at + 10], states[at + 11],
        decode(new.remembered, 'base64'), new.lives::bigint[]
    FROM unnest(group_keys, skipped, arrivals, decided, due_ats, ready_ranks, remembered, lives)
        WITH ORDINALITY AS new (group_key, skipped, arrivals, decided, due_at, ready_rank, remembered, lives, place),
        LATERAL (SELECT (place::integer - 1) * 11 AS at) AS part
    ON CONFLICT (queue_id, group_key) DO UPDATE SET
        flags = excluded.flags, first = excluded.first, next = excluded.next, mark = excluded.mark,
        last = excluded.last, ordinal = excluded.ordinal, since = excluded.since, reports = excluded.reports,
        clock = excluded.clock, skipped = excluded.skipped, arrivals = excluded.arrivals, decided = excluded.decided,
        due_at = excluded.due_at, ready_rank = excluded.ready_rank, suspects = excluded.suspects,
        suspect = excluded.suspect, remembered = excluded.remembered, lives = excluded.lives, touched_at = now();
    IF cardinality(kept_ids) > 0 THEN
        UPDATE {schema}.entries AS entry SET
            status = kept.status, arrival = kept.arrival, ordinal = kept.ordinal, late = kept.late, waits = kept.waits,
            sequence = coalesce(kept.sequence, entry.sequence), meaning = coalesce(kept.meaning::bigint[], entry.meaning)
        FROM unnest(kept_ids, kept_statuses, kept_arrivals, kept_ordinals, kept_late, kept_waits, kept_sequences, kept_meanings)
            AS kept (entry_id, status, arrival, ordinal, late, waits, sequence, meaning)
        WHERE entry.entry_id = ANY (ARRAY[kept.entry_id]);
    END IF;
    IF cardinality(aside_ids) > 0 THEN
        WITH gone AS (
            DELETE FROM {schema}.entries AS entry
            USING unnest(aside_ids, aside_dispositions, aside_reasons, aside_ordinals, aside_counted, aside_sequences, aside_meanings)
                AS judged (entry_id, disposition, reason, ordinal, counted, sequence, meaning)
            WHERE entry.entry_id = ANY (ARRAY[judged.entry_id])
            RETURNING entry.*, judged.disposition, judged.reason, judged.ordinal AS left_as, judged.counted,
                coalesce(judged.sequence, entry.sequence) AS number, coalesce(judged.meaning::bigint[], entry.meaning) AS means
        )
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, meaning, priority,
            subscription_ids, ordinal, late, attempt, counted
        )
        SELECT
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, number, size, means, priority,
            subscription_ids, left_as, late, attempt, counted
        FROM gone;
    END IF;
    IF cardinality(obeyed_ids) > 0 THEN
        DELETE FROM {schema}.requests WHERE request_id = ANY (obeyed_ids) AND queue_id = of_queue;
    END IF;
END
$function$;
