-- Leave a mark on the first message of a delivery, and check for an earlier one: the locker of a row stays written in
-- it, whatever happens to its transaction. Return the transaction that left the mark, if it was rolled back and isn't
-- counted yet. `locker`: the transaction in the row. The caller has the lock of the group.
CREATE OR REPLACE FUNCTION {schema}.mark_entry(
    of_queue integer, of_group text, of_entry bigint, locker bigint
) RETURNS bigint
AS $function$
DECLARE
    own bigint := pg_current_xact_id()::text::bigint & 4294967295;
BEGIN
    PERFORM FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry FOR UPDATE SKIP LOCKED;
    IF locker IN (0, own) THEN
        RETURN NULL;
    END IF;
    IF {schema}.was_rolled_back(locker::text::xid) AND NOT EXISTS (
        SELECT FROM {schema}.rollbacks AS known
        WHERE known.queue_id = of_queue AND known.group_key = of_group AND known.last_by = locker
    ) THEN
        RETURN locker;
    END IF;
    RETURN NULL;
END
$function$;
