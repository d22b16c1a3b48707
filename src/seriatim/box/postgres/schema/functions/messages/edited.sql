-- Return the valid bodies and properties of edited entries; NULL: that isn't edited. The caller needs the right to
-- read them.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.edited(of_queue integer, of_entries bigint[])
RETURNS TABLE (entry_id bigint, body bytea, context text, property_types jsonb)
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('read', of_queue, of_entries);
    RETURN QUERY
    SELECT entry.entry_id, new_body.body, new_context.context::text, new_context.property_types
    FROM {schema}.entries AS entry
    LEFT JOIN LATERAL (
        SELECT one.body FROM {schema}.edits AS one
        WHERE one.entry_id = entry.entry_id AND one.body IS NOT NULL ORDER BY one.edit_id DESC LIMIT 1
    ) AS new_body ON TRUE
    LEFT JOIN LATERAL (
        SELECT one.context, one.property_types FROM {schema}.edits AS one
        WHERE one.entry_id = entry.entry_id AND one.context IS NOT NULL ORDER BY one.edit_id DESC LIMIT 1
    ) AS new_context ON TRUE
    WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
        AND (new_body.body IS NOT NULL OR new_context.context IS NOT NULL);
END
$function$;
