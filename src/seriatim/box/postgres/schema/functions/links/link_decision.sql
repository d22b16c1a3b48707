-- What a sender does after an answer. Decisions: 0 ack, 1 later, 2 fragments, 3 repeat, 4 over, 5 end, 6 lost, 7 stale. `side`: which box
-- seems to have gone back, 0 unknown, 1 sender, 2 receiver. `above`: of a stream that ends, above which number the receiver lacks something,
-- `unproven` above which it may.
-- is: immutable
CREATE OR REPLACE FUNCTION {schema}.link_decision(
    acked bigint, sent bigint, kept bigint, status integer, answer integer, received bigint, is_equal boolean, current boolean,
    known boolean, OUT decision integer, OUT through bigint, OUT side integer, OUT above bigint, OUT unproven bigint
)
AS $function$
DECLARE
    tells boolean := answer IN (0, 1, 2);
    is_same boolean := is_equal AND received <= sent;
    holds boolean := tells AND is_same AND received >= acked AND status <> 2;
BEGIN
    decision := CASE
        WHEN holds AND (status = 1 OR answer = 1) THEN 1
        WHEN holds AND answer = 2 THEN 2
        WHEN holds THEN 0
        WHEN NOT current THEN 7
        WHEN answer = 3 AND status <> 0 THEN 4
        WHEN answer = 3 AND known THEN 6
        WHEN answer = 3 OR status = 2 THEN 1
        WHEN tells AND is_same AND received >= kept THEN 3
        ELSE 5
    END;
    through := CASE WHEN holds OR decision = 3 THEN received ELSE acked END;
    side := CASE WHEN answer = 3 OR received > sent THEN 1 WHEN received < acked THEN 2 ELSE 0 END;
    above := CASE WHEN answer = 3 THEN acked ELSE least(received, acked) END;
    unproven := CASE WHEN is_equal OR answer = 3 THEN above ELSE 0 END;
END
$function$;
