-- Put the messages of a dialog before the others of its group, and return the group and how many there are: 0 also where
-- another receiver has it. `named`: the group that the caller names besides.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.first_of_dialog(
    of_queue integer, of_handle uuid, named text, declared jsonb, OUT group_key text, OUT messages integer
)
AS $function$
#variable_conflict use_column
DECLARE
    own record;
    its record;
BEGIN
    SELECT side.queue_id, side.group_id::text AS key INTO own FROM {schema}.endpoints AS side WHERE side.handle = of_handle;
    IF own.queue_id IS DISTINCT FROM of_queue OR named <> own.key THEN
        RAISE EXCEPTION 'the dialog % is elsewhere', of_handle USING
            ERRCODE = 'invalid_parameter_value', HINT = 'receive it from its own queue and group';
    END IF;
    group_key := own.key;
    messages := 0;
    -- So all of it is judged.
    its := {schema}.take_next(of_queue, declared, own.key, 1000000, TRUE, FALSE);
    IF its.entry_ids IS NOT NULL THEN
        PERFORM {schema}.put_back(of_queue, own.key, its.entry_ids, its.ordinals, its.lates);
        messages := {schema}.put_first(of_handle);
    END IF;
END
$function$;
