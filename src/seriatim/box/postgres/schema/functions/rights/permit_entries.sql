-- Refuse a caller without a right for a queue, or with entries of another one.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.permit_entries(what text, of_queue integer, entry_ids bigint[]) RETURNS void
AS $function$
BEGIN
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    PERFORM {schema}.permit(what, ARRAY[of_queue]);
    IF EXISTS (
        SELECT FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (entry_ids) AND entry.queue_id <> of_queue
    ) THEN
        RAISE EXCEPTION 'these entries are in another queue' USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$function$;
