-- Edits of messages: of bodies and of properties, of many messages at once.

-- What operators have put in the place of bodies and properties. Of an entry the newest of each counts; NULL: that edit left
-- it as it was. What was published stays in the spool.
ALTER TABLE {schema}.edited_bodies RENAME TO edits;
ALTER TABLE {schema}.edits
    ALTER COLUMN body DROP NOT NULL,
    ADD COLUMN context jsonb,
    ADD COLUMN property_types jsonb,
    ADD COLUMN arrival_id bigint,
    ADD COLUMN position integer,
    ADD CONSTRAINT edits_edited_check CHECK (body IS NOT NULL OR context IS NOT NULL);
ALTER INDEX {schema}.edited_bodies_pkey RENAME TO edits_pkey;
UPDATE {schema}.edits AS edit SET arrival_id = one.arrival_id, position = one.position
FROM (
    SELECT entry_id, arrival_id, position FROM {schema}.entries
    UNION ALL
    SELECT entry_id, arrival_id, position FROM {schema}.aside
    UNION ALL
    SELECT entry_id, arrival_id, position FROM {schema}.history
) AS one
WHERE one.entry_id = edit.entry_id;
-- Who looks for messages by a property finds them by what an operator has put there, too.
CREATE INDEX edits_of_message ON {schema}.edits (arrival_id, position) WHERE context IS NOT NULL;

-- Bodies and properties that count, of those entries that were edited; NULL: as it was published.
DROP FUNCTION {schema}.edited(integer, bigint[]);
CREATE FUNCTION {schema}.edited(of_queue integer, of_entries bigint[])
RETURNS TABLE (entry_id bigint, body bytea, context text, property_types jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries_for('read', of_queue, of_entries);
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

-- Edit messages of a queue. Of each entry its new properties, or NULL, with the types that JSON doesn't have; new bodies are
-- given apart, by their entries. The dialog of a message stays. Whoever does sees bodies.
DROP FUNCTION {schema}.edit_body(integer, bigint, bytea, text);
CREATE FUNCTION {schema}.edit_entries(
    of_queue integer, of_entries bigint[], of_contexts text[], of_property_types text[],
    body_entries bigint[], of_bodies bytea[], its_actor text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('see_bodies', ARRAY[of_queue]);
    PERFORM {schema}.permit_entries_for('operate', of_queue, of_entries);
    INSERT INTO {schema}.edits (entry_id, arrival_id, position, body, context, property_types, edited_by)
    SELECT
        entry.entry_id, arrival_id, position, given.body,
        changed.context::jsonb || CASE
            WHEN jsonb_typeof(stored.context -> 'dialog') = 'object'
            THEN jsonb_build_object('dialog', stored.context -> 'dialog') ELSE '{{}}' END,
        changed.property_types::jsonb, its_actor
    FROM unnest(of_entries, of_contexts, of_property_types) AS changed (entry_id, context, property_types)
    JOIN {schema}.entries AS entry ON entry.entry_id = changed.entry_id AND entry.queue_id = of_queue
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    LEFT JOIN unnest(body_entries, of_bodies) AS given (entry_id, body) ON given.entry_id = changed.entry_id
    ORDER BY changed.entry_id;
END
$function$;

-- Lock groups of a queue for an operator, in the order of their keys; waits for each at most so long, and for all of them at
-- most the time for forty. Groups that others keep, or that are in a lease, are left out.
CREATE FUNCTION {schema}.lock_many_for_operator(
    of_queue integer, of_groups text[], patience_ms integer,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    one text;
    ends_at timestamptz := clock_timestamp() + make_interval(secs => patience_ms * 40 / 1000.0);
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    group_keys := '{{}}';
    FOREACH one IN ARRAY of_groups LOOP
        IF {schema}.lock_patiently(of_queue, one, CASE WHEN clock_timestamp() < ends_at THEN patience_ms ELSE 1 END) THEN
            group_keys := group_keys || one;
        END IF;
    END LOOP;
    now_us := {schema}.now_us();
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;

-- Write down what an operator did to many groups of a queue, a row for each; answers with the numbers of the rows, in the
-- order of the groups.
CREATE FUNCTION {schema}.log_operations(
    its_actor text, its_action text, of_queue text, of_groups text[], its_reason text, of_details text[]
) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    place integer;
    written bigint[] := '{{}}';
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[coalesce(
        (SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = of_queue), -1
    )]);
    FOR place IN 1 .. coalesce(cardinality(of_groups), 0) LOOP
        written := written || {schema}.log_operation(
            its_actor, its_action, of_queue, of_groups[place], its_reason, of_details[place]::jsonb
        );
    END LOOP;
    RETURN written;
END
$function$;

-- Edits, for operators who see bodies.
CREATE VIEW {schema}.seen_edits WITH (security_barrier) AS
SELECT edit.* FROM {schema}.edits AS edit
WHERE edit.entry_id IN (
    SELECT entry.entry_id FROM {schema}.entries AS entry
    WHERE entry.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])
    UNION ALL
    SELECT gone.entry_id FROM {schema}.aside AS gone
    WHERE gone.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])
    UNION ALL
    SELECT done.entry_id FROM {schema}.history AS done
    WHERE done.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])
);
