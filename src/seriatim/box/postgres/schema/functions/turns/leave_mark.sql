-- Leave a mark on the first message of a new group: the locker of a row stays written in it, whatever happens to its
-- transaction. FALSE: there is a mark of a rolled-back transaction, and nothing is done.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.leave_mark(of_queue integer, of_entry bigint) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, ARRAY[of_entry]);
    IF {schema}.was_rolled_back((SELECT entry.xmax FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry)) THEN
        RETURN FALSE;
    END IF;
    PERFORM FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry FOR UPDATE SKIP LOCKED;
    RETURN TRUE;
END
$function$;
