-- Put messages back, as `put_back` does; return the transaction or subtransaction that did it.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.put_back_by(
    of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS xid8
AS $function$
BEGIN
    PERFORM {schema}.put_back(of_queue, of_group, entry_ids, ordinals, lates);
    RETURN {schema}.handed_by(of_queue, of_group, entry_ids);
END
$function$;
