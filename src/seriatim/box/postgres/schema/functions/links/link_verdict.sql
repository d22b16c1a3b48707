-- Decide on a batch, by the rules of `kernel/streams.py`. The model is `received` in `tests/models/streams.py`.
-- is: immutable
CREATE OR REPLACE FUNCTION {schema}.link_verdict(
    known_received bigint, is_over boolean, busy boolean, room bigint, kind bigint, after bigint,
    count bigint,
    is_equal boolean, fits boolean, incomplete boolean,
    OUT answer integer, OUT received bigint, OUT skipped bigint, OUT taken bigint, OUT ends boolean, OUT event boolean
)
AS $function$
DECLARE
    ahead bigint := known_received - after;
    reaches boolean := ahead BETWEEN 0 AND count;
    is_open boolean := NOT is_over AND NOT busy;
    joins boolean := is_open AND reaches AND is_equal AND kind <> {batch.END};
    closes boolean := joins AND kind = {batch.CLOSE} AND ahead = count;
    new bigint := CASE WHEN joins AND fits THEN count - ahead ELSE 0 END;
BEGIN
    event := is_open AND kind = {batch.END};
    ends := event OR closes;
    taken := least(new, greatest(room, 0));
    received := known_received + taken;
    skipped := CASE WHEN joins THEN ahead ELSE 0 END;
    answer := CASE
        WHEN is_over OR ends THEN {answer.GONE}
        WHEN busy OR taken < new THEN {answer.WAIT}
        WHEN is_open AND kind <> {batch.END} AND (reaches AND NOT is_equal OR joins AND NOT fits) THEN {answer.BROKEN}
        WHEN joins AND incomplete THEN {answer.MISSING}
        ELSE {answer.THROUGH}
    END;
END
$function$;
