-- Note that the caller has these entries in hand until its transaction ends: their keys are free meanwhile. The
-- server has room for a limited number of locks; with more entries all of their group count as in hand, and one too
-- many comes in.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.begin_unique(of_queue integer, of_group text, of_entries bigint[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, of_entries);
    IF cardinality(of_entries) > 64 THEN
        PERFORM pg_advisory_xact_lock_shared({schema}.group_in_hand_lock(of_queue, coalesce(of_group, '')));
    ELSE
        PERFORM pg_advisory_xact_lock_shared({schema}.in_hand_lock(one)) FROM unnest(of_entries) AS one;
    END IF;
END
$function$;
