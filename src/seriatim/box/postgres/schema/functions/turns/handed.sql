-- Return the messages of entries that are handed out, in the order of the entries. The caller has locked their
-- groups.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.handed(of_queue integer, of_entries bigint[])
RETURNS TABLE (
    message_id text, type text, content_type text, context text, property_types jsonb, body bytea,
    received_at timestamptz, location text, epoch bigint, number bigint, attempt integer, priority smallint,
    subscription_ids integer[], parts integer, meaning bigint[], edited boolean, sequence bigint, group_key text
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_entries(
        CASE WHEN of_entries = '{}' THEN 'judge' ELSE 'receive' END, of_queue, of_entries
    );
    RETURN QUERY
    SELECT
        {handed_message()},
        entry.sequence, entry.group_key
    FROM unnest(of_entries) WITH ORDINALITY AS handed (entry_id, at)
    JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
    {of_entry()}
    ORDER BY handed.at;
END
$function$;
