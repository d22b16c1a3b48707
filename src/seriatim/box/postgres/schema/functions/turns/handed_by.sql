-- Return the transaction, or subtransaction, that has handed messages out, or put them back; for a caller right
-- afterwards. A turn writes the row of its group; in a queue without groups it locks the messages.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.handed_by(of_queue integer, of_group text, entry_ids bigint[]) RETURNS xid8
AS $function$
DECLARE
    top bigint := pg_current_xact_id()::text::bigint;
    short bigint;
    own bigint;
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, entry_ids);
    IF of_group IS NULL THEN
        SELECT entry.xmax::text::bigint INTO short FROM {schema}.entries AS entry WHERE entry.entry_id = entry_ids[1];
    ELSE
        SELECT known.xmin::text::bigint INTO short FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.group_key = of_group;
    END IF;
    -- Rows have the lower half of the number. A subtransaction is younger than its transaction.
    own := (top & -4294967296) | short;
    RETURN (CASE WHEN own < top THEN own + 4294967296 ELSE own END)::text::xid8;
END
$function$;
