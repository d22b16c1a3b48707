-- Begin anew periods that count from a future time, since the clock was ahead then: of the named group, which the
-- caller has locked, or of the next free groups of a queue, after `after`. A delay and a lease keep their length.
-- Messages of that time arrive now, and the clock of a group begins now, or when the last of its messages may be
-- seen. Such groups are due at once, so that the next turn finds when they are due. Return the number of leases and
-- groups, and the key of the last group; NULL: there are no more.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.put_right(
    of_queue integer, named text, after text, OUT moved integer, OUT through text
)
AS $function$
DECLARE
    most CONSTANT integer := 256;
    moment timestamptz := clock_timestamp();
    at_us bigint := (extract(epoch FROM moment) * 1000000)::bigint;
    candidates text[];
    keys text[];
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    -- A living worker extends it in time; a dead worker's lease runs out.
    UPDATE {schema}.leases AS lease SET
        expires_at = moment + (lease.expires_at - lease.renewed_at), renewed_at = moment
    WHERE lease.queue_id = of_queue AND (named IS NULL OR lease.group_key = named) AND lease.renewed_at > moment;
    GET DIAGNOSTICS moved = ROW_COUNT;
    candidates := ARRAY(
        SELECT found.group_key FROM (
            SELECT known.group_key FROM {schema}.known_groups AS known
            CROSS JOIN LATERAL (SELECT greatest(
                known.since, known.clock, CASE WHEN known.flags & {flag.LEAVING} <> 0 THEN known.mark END
            ) AS last_us) AS told
            WHERE known.queue_id = of_queue AND told.last_us > at_us AND told.last_us > coalesce((
                SELECT max((extract(epoch FROM entry.visible_at) * 1000000)::bigint) FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = known.group_key
                    AND entry.visible_at < 'infinity' AND (entry.delayed_at > moment) IS NOT TRUE
            ), at_us)
            UNION
            SELECT entry.group_key FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.status <> 'placed' AND (
                entry.delayed_at > moment AND entry.visible_at > moment
                OR entry.rank + (entry.priority - 5) * 10000000 > at_us + 1000000 -- messages of one call are a microsecond apart
            )
        ) AS found
        WHERE (named IS NULL OR found.group_key = named) AND (after IS NULL OR found.group_key > after)
        ORDER BY found.group_key LIMIT most
    );
    through := CASE WHEN cardinality(candidates) = most THEN candidates[most] END;
    keys := ARRAY(
        SELECT one FROM unnest(candidates) AS one
        WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, one)) AND NOT EXISTS (
            SELECT FROM {schema}.leases AS lease WHERE lease.queue_id = of_queue AND lease.group_key = one
        )
    );
    moved := moved + cardinality(keys);
    WITH delayed AS (
        UPDATE {schema}.entries AS entry SET
            visible_at = moment + (entry.visible_at - entry.delayed_at), delayed_at = moment,
            postponed_until = CASE
                WHEN entry.postponed_until = entry.visible_at THEN moment + (entry.visible_at - entry.delayed_at)
            END
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (keys) AND entry.delayed_at > moment
            AND entry.visible_at > moment AND entry.visible_at < 'infinity'
        RETURNING entry.arrival_id, entry.position, entry.visible_at
    )
    UPDATE {schema}.spool AS stored SET visible_at = delayed.visible_at FROM delayed
    WHERE stored.arrival_id = ANY (ARRAY[delayed.arrival_id]) AND stored.position = ANY (ARRAY[delayed.position])
        AND stored.visible_at > moment;
    UPDATE {schema}.entries AS entry SET
        arrived_us = least(coalesce(entry.arrived_us, run.arrived_us), at_us),
        rank = least(entry.rank, at_us - (entry.priority - 5) * 10000000)
    FROM {schema}.tickets AS run
    WHERE entry.queue_id = of_queue AND entry.group_key = ANY (keys) AND entry.status <> 'placed'
        AND run.arrival_id = ANY (ARRAY[entry.arrival_id]) AND (
            coalesce(entry.arrived_us, run.arrived_us) > at_us
            OR entry.rank + (entry.priority - 5) * 10000000 > at_us + 1000000 -- messages of one call are a microsecond apart
        );
    UPDATE {schema}.known_groups AS known SET
        since = least(known.since, bound.until_us), clock = least(known.clock, bound.until_us),
        mark = CASE WHEN known.flags & {flag.LEAVING} <> 0 THEN least(known.mark, bound.until_us) ELSE known.mark END,
        due_at = CASE WHEN known.due_at IS NOT NULL THEN least(known.due_at, at_us) END,
        ready_rank = CASE WHEN known.ready_rank IS NOT NULL THEN least(known.ready_rank, at_us) END
    FROM (
        SELECT one.group_key, greatest(at_us, max((extract(epoch FROM entry.visible_at) * 1000000)::bigint)) AS until_us
        FROM unnest(keys) AS one (group_key)
        LEFT JOIN {schema}.entries AS entry
            ON entry.queue_id = of_queue AND entry.group_key = one.group_key AND entry.visible_at < 'infinity'
        GROUP BY 1
    ) AS bound
    WHERE known.queue_id = of_queue AND known.group_key = bound.group_key;
END
$function$;
