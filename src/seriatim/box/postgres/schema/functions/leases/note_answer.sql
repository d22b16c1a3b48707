-- Note what a call has done to the caller's lease, and return its answer; `through`: how many messages are done.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.note_answer(
    of_lease uuid, of_holder text, verb text, at integer, said text, answer jsonb, through integer, ends boolean
) RETURNS jsonb
AS $function$
#variable_conflict use_variable
BEGIN
    PERFORM {schema}.permit_anything();
    answer := answer || jsonb_build_object('done', through, 'over', ends);
    UPDATE {schema}.deliveries SET
        done = through,
        answers = answers || jsonb_build_object('verb', verb, 'at', at, 'said', said, 'answer', answer),
        ended_at = CASE WHEN ends THEN clock_timestamp() END,
        entry_ids = CASE WHEN ends THEN '{}' ELSE entry_ids END,
        ordinals = CASE WHEN ends THEN '{}' ELSE ordinals END,
        lates = CASE WHEN ends THEN '{}' ELSE lates END
    WHERE delivery_id = of_lease AND role = {schema}.caller() AND holder = of_holder;
    RETURN answer;
END
$function$;
