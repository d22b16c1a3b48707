-- Return where a queue begins: the lowest rank of ready messages or arrivals, including those of locked groups, and
-- at most that of a message which comes now; and the time of the look, microseconds. Finished entries stay before it
-- in the indexes until they are vacuumed, which an open transaction prevents. So a look for the next group begins
-- there, `from_rank`, and reads everything only if it finds none. The lowest possible number means everything.
-- is: definer, generic plan, no seqscan, no bitmapscan, no sort
CREATE OR REPLACE FUNCTION {schema}.head_of(of_queue integer, OUT rank bigint, OUT took_us bigint)
AS $function$
DECLARE
    began bigint := {schema}.now_us();
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    rank := least(
        (
            SELECT known.ready_rank FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.ready_rank IS NOT NULL ORDER BY known.ready_rank LIMIT 1
        ), (
            SELECT entry.rank FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.status = 'arrived' ORDER BY entry.rank LIMIT 1
        ), began
    );
    took_us := {schema}.now_us() - began;
END
$function$;
