-- Where a queue begins: the lowest rank of what is ready or has arrived, of groups that somebody has, too, and at most
-- that of a message which comes now; and how long it took to find that, microseconds. What is done stands before it in
-- the indexes until it is vacuumed, and as long as a transaction is held open somewhere it can't be. So whoever looks
-- for the next group begins there, `from_rank`, and looks at all only if he finds none. The lowest number there is
-- stands for all.
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
