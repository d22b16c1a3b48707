-- Failures of all kinds are published, and faults are kept for some time only.

ALTER TABLE {schema}.keeping ADD COLUMN faults_for interval NOT NULL DEFAULT '30 days' CHECK (faults_for >= '0');

-- What failures tell of messages that are in a queue, or were set aside from it.
CREATE FUNCTION {schema}.failed_messages(of_queue integer, of_entries bigint[])
RETURNS TABLE (
    group_key text, message_id text, type text, context text, property_types jsonb, ordinal bigint, attempt integer,
    reason text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    RETURN QUERY
    SELECT one.group_key, stored.message_id, stored.type, stored.context::text, stored.property_types, one.ordinal,
        one.attempt, one.reason
    FROM (
        SELECT entry.entry_id, entry.group_key, entry.arrival_id, entry.position, entry.ordinal, entry.attempt,
            '' AS reason
        FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
        UNION ALL
        SELECT gone.entry_id, gone.group_key, gone.arrival_id, gone.position, gone.ordinal, gone.attempt, gone.reason
        FROM {schema}.aside AS gone WHERE gone.entry_id = ANY (of_entries) AND gone.queue_id = of_queue
    ) AS one
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    ORDER BY one.entry_id;
END
$function$;

-- Of some groups the message behind a hole that ends at these numbers, if there is one: its entry, for each group.
CREATE FUNCTION {schema}.behind_holes(of_queue integer, of_groups text[], of_lasts bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN ARRAY(
        SELECT (
            SELECT entry.entry_id FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.group_key = hole.of_group AND entry.sequence > hole.of_last
            ORDER BY entry.sequence LIMIT 1
        )
        FROM unnest(of_groups, of_lasts) WITH ORDINALITY AS hole (of_group, of_last, place) ORDER BY hole.place
    );
END
$function$;

-- Which of these messages this transaction has published so that nobody wanted them, and what was wrong with them.
CREATE FUNCTION {schema}.unrouted_now(message_ids text[]) RETURNS TABLE (message_id text, problem text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    RETURN QUERY
    SELECT stored.message_id, waiting.problem
    FROM {schema}.arrivals AS arrival
    JOIN {schema}.unrouted AS waiting USING (arrival_id)
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE arrival.transaction = pg_current_xact_id_if_assigned()
        AND stored.message_id = ANY (unrouted_now.message_ids);
END
$function$;

-- Nobody but the owner.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
