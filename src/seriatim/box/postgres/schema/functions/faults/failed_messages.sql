-- Return the data for failures of messages that are in queues, or were set aside from them; of the queues that the
-- caller may receive from. `bodies_of`: the queues of which they have bodies.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.failed_messages(of_entries bigint[], bodies_of integer[])
RETURNS TABLE (
    entry_id bigint, queue_id integer, group_key text, message_id text, type text, context text, property_types jsonb,
    ordinal bigint, attempt integer, disposition text, reason text, body bytea, content_type text, part_names text[],
    part_content_types text[], part_bodies bytea[]
)
AS $function$
#variable_conflict use_column
DECLARE
    permitted integer[] := {schema}.permitted('receive');
    is_owner boolean := {schema}.is_owner();
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT one.entry_id, one.queue_id, one.group_key, stored.message_id, stored.type, stored.context::text,
        stored.property_types, one.ordinal, one.attempt, one.disposition, one.reason, whole.*
    FROM (
        SELECT entry.entry_id, entry.queue_id, entry.group_key, entry.arrival_id, entry.position, entry.ordinal,
            entry.attempt, NULL AS disposition, '' AS reason
        FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (of_entries)
        UNION ALL
        SELECT gone.entry_id, gone.queue_id, gone.group_key, gone.arrival_id, gone.position, gone.ordinal,
            gone.attempt, gone.disposition, gone.reason
        FROM {schema}.aside AS gone WHERE gone.entry_id = ANY (of_entries)
    ) AS one
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[one.arrival_id]) AND stored.position = ANY (ARRAY[one.position])
    LEFT JOIN LATERAL {schema}.whole_message(stored.arrival_id, stored.position) AS whole
        ON one.queue_id = ANY (bodies_of)
    WHERE is_owner OR one.queue_id = ANY (permitted)
    ORDER BY one.entry_id;
END
$function$;
