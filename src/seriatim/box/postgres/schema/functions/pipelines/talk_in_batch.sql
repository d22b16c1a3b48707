-- Update the dialogs whose messages a pipeline gets: the receiver of a first message converses; the receiver of an
-- EndDialog or an Error ends its side, and still gets the later messages. The caller has the locks of their groups,
-- and has put the messages into a batch.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.talk_in_batch(of_queue integer, of_entries bigint[]) RETURNS void
AS $function$
DECLARE
    one record;
BEGIN
    UPDATE {schema}.endpoints AS known SET state = rule.becomes
    FROM {schema}.dialog_rules AS rule, (
        SELECT DISTINCT (stored.context -> 'dialog' ->> 'handle')::uuid AS handle
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
            AND stored.context -> 'dialog' ->> 'sequence' = '0'
    ) AS first
    WHERE known.handle = first.handle AND NOT known.is_initiator
        AND rule.verb = 'receive' AND rule.state = known.state AND rule.becomes <> known.state;
    FOR one IN
        SELECT DISTINCT (stored.context -> 'dialog' ->> 'handle')::uuid AS handle
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
            AND stored.type IN ('EndDialog', 'Error') AND stored.context -> 'dialog' ->> 'handle' IS NOT NULL
        ORDER BY handle
    LOOP
        -- Messages that it hasn't received yet stay for it: they count as in its hands.
        PERFORM {schema}.try_end(one.handle, 'end', NULL, NULL, ARRAY(
            SELECT stored.message_id
            FROM {schema}.endpoints AS known
            JOIN {schema}.entries AS entry
                ON entry.queue_id = known.queue_id AND entry.group_key = known.group_id::text
            JOIN {schema}.spool AS stored USING (arrival_id, position)
            WHERE known.handle = one.handle
        ));
    END LOOP;
END
$function$;
