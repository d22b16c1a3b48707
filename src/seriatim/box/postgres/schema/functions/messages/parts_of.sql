-- Return the parts of the messages of some entries, in the order of the entries and of the parts. The caller needs the
-- right to read them.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.parts_of(of_queue integer, of_entries bigint[])
RETURNS TABLE (entry_id bigint, name text, content_type text, body bytea)
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('read', of_queue, of_entries);
    RETURN QUERY
    SELECT entry.entry_id, part.name, part.content_type, part.body
    FROM {schema}.entries AS entry JOIN {schema}.message_parts AS part USING (arrival_id, position)
    WHERE entry.queue_id = of_queue AND entry.entry_id = ANY (of_entries)
    ORDER BY entry.entry_id, part.number;
END
$function$;
