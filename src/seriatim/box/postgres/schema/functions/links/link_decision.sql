-- Decide what a sender does after an answer, by the rules of `kernel/streams.py`. The model is `answered` in
-- `tests/models/streams.py`. `side`: which box seems to have gone back. `above`: of a stream that ends, above which number
-- the receiver lacks something, `unproven` above which it may.
-- is: immutable
CREATE OR REPLACE FUNCTION {schema}.link_decision(
    acked bigint, sent bigint, kept bigint, status integer, answer integer, received bigint, is_equal boolean,
    current boolean,
    known boolean, OUT decision integer, OUT through bigint, OUT side integer, OUT above bigint, OUT unproven bigint
)
AS $function$
DECLARE
    tells boolean := answer IN ({answer.THROUGH}, {answer.WAIT}, {answer.MISSING});
    is_same boolean := is_equal AND received <= sent;
    holds boolean := tells AND is_same AND received >= acked AND status <> {status.ENDING};
BEGIN
    decision := CASE
        WHEN holds AND (status = {status.CLOSING} OR answer = {answer.WAIT}) THEN {decision.LATER}
        WHEN holds AND answer = {answer.MISSING} THEN {decision.FRAGMENTS}
        WHEN holds THEN {decision.ACK}
        WHEN NOT current THEN {decision.STALE}
        WHEN answer = {answer.GONE} AND status <> {status.OPEN} THEN {decision.OVER}
        WHEN answer = {answer.GONE} AND known THEN {decision.LOST}
        WHEN answer = {answer.GONE} OR status = {status.ENDING} THEN {decision.LATER}
        WHEN tells AND is_same AND received >= kept THEN {decision.REPEAT}
        ELSE {decision.END}
    END;
    through := CASE WHEN holds OR decision = {decision.REPEAT} THEN received ELSE acked END;
    side := CASE WHEN answer = {answer.GONE} OR received > sent THEN {side.SENDER}
        WHEN received < acked THEN {side.RECEIVER} ELSE {side.UNKNOWN} END;
    above := CASE WHEN answer = {answer.GONE} THEN acked ELSE least(received, acked) END;
    unproven := CASE WHEN is_equal OR answer = {answer.GONE} THEN above ELSE 0 END;
END
$function$;
