-- Store edits of messages beside the published ones: new properties of each entry, and new bodies of `body_entries`.
-- Their entries are marked: receivers look for edits of marked entries only. The property `dialog` stays. The caller
-- needs the rights to see bodies and to operate, and has locked the entries or their groups.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.edit_entries(
    of_queue integer, of_entries bigint[], of_contexts text[], of_property_types text[],
    body_entries bigint[], of_bodies bytea[], its_actor text
) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('see_bodies', ARRAY[of_queue]);
    PERFORM {schema}.permit_entries('operate', of_queue, of_entries);
    INSERT INTO {schema}.edits (entry_id, arrival_id, position, body, context, property_types, edited_by)
    SELECT
        entry.entry_id, arrival_id, position, given.body,
        changed.context::jsonb || CASE
            WHEN jsonb_typeof(stored.context -> 'dialog') = 'object'
            THEN jsonb_build_object('dialog', stored.context -> 'dialog') ELSE '{}' END,
        changed.property_types::jsonb, its_actor
    FROM unnest(of_entries, of_contexts, of_property_types) AS changed (entry_id, context, property_types)
    JOIN {schema}.entries AS entry ON entry.entry_id = changed.entry_id AND entry.queue_id = of_queue
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    LEFT JOIN unnest(body_entries, of_bodies) AS given (entry_id, body) ON given.entry_id = changed.entry_id
    ORDER BY changed.entry_id;
    UPDATE {schema}.entries AS entry SET edited = TRUE WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue;
END
$function$;
