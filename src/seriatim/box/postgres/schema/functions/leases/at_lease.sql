-- Lock a lease for a call of its holder, and return what it has. `verb`, `at`, `said`: the call, the position that it
-- names, and a fingerprint of what else it says. `answer`: NULL, or the former answer, if the call was made before or
-- says nothing new about positions that are done; then the caller changes nothing. Refuse a call that says something
-- else about such positions, and a call on a lease that is over, or that another principal has: the error doesn't tell
-- which.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.at_lease(
    of_lease uuid, of_holder text, verb text, INOUT at integer, said text,
    OUT answer jsonb, OUT queue_id integer, OUT queue text, OUT group_key text, OUT incarnation integer,
    OUT token bigint, OUT worker text, OUT until timestamptz, OUT is_set boolean, OUT done integer,
    OUT entry_ids bigint[], OUT ordinals bigint[], OUT lates boolean[]
)
AS $function$
#variable_conflict use_column
DECLARE
    one record;
    past jsonb;
    is_held boolean;
BEGIN
    PERFORM {schema}.permit_anything();
    SELECT * INTO one FROM {schema}.deliveries
    WHERE delivery_id = of_lease AND role = {schema}.caller() AND holder = of_holder FOR UPDATE;
    IF FOUND THEN
        PERFORM {schema}.permit('receive', ARRAY[one.queue_id]);
        IF verb = 'complete' THEN
            at := coalesce(at, one.size);
        END IF;
        IF at NOT BETWEEN 1 AND one.size THEN
            RAISE EXCEPTION 'the delivery has no position %', at USING
                ERRCODE = 'invalid_parameter_value', HINT = format('from 1 to %s', one.size);
        ELSIF one.is_set AND verb <> 'read' AND at <> (CASE verb WHEN 'complete' THEN one.size ELSE 1 END) THEN
            RAISE EXCEPTION 'a set is done, or fails, as a whole' USING ERRCODE = 'invalid_parameter_value';
        END IF;
        SELECT told INTO past FROM jsonb_array_elements(one.answers) AS told
        WHERE CASE WHEN at IS NULL THEN told ->> 'verb' = verb ELSE (told ->> 'at')::integer >= at END
        ORDER BY (told ->> 'at')::integer, told ->> 'verb' = verb DESC LIMIT 1;
        IF (past ->> 'at')::integer IS NOT DISTINCT FROM at AND past ->> 'verb' = verb AND past ->> 'said' = said
            OR at <= one.done AND verb = 'complete' AND said = '' THEN
            answer := past -> 'answer' || '{"repeated": true}';
            RETURN;
        ELSIF at <= one.done AND verb = 'read' THEN
            RAISE EXCEPTION 'position % is done', at USING ERRCODE = 'SQ005', HINT = 'only what isn''t done can be read';
        ELSIF at <= one.done THEN
            RAISE EXCEPTION 'position % is done, and this call says something else about it', at USING
                ERRCODE = 'SQ006', HINT = 'repeat a call as it was; a result of its own is a message to publish';
        END IF;
        is_held := (SELECT lease.held FROM {schema}.hold_lease(one.queue_id, one.token, 10000) AS lease);
    END IF;
    IF is_held IS NOT TRUE THEN
        RAISE EXCEPTION 'the lease % is over', of_lease USING
            ERRCODE = 'SQ005', HINT = 'it was ended, ran out, or is another principal''s; nothing is changed';
    END IF;
    SELECT place.queue INTO queue FROM {schema}.queues AS place WHERE place.queue_id = one.queue_id;
    SELECT lease.worker, lease.expires_at INTO worker, until FROM {schema}.leases AS lease WHERE lease.token = one.token;
    queue_id := one.queue_id;
    group_key := one.group_key;
    incarnation := one.incarnation;
    token := one.token;
    is_set := one.is_set;
    done := one.done;
    entry_ids := one.entry_ids;
    ordinals := one.ordinals;
    lates := one.lates;
    IF until = 'infinity' AND verb IN ('fail', 'give_back') AND group_key IS NOT NULL THEN -- else at the commit
        PERFORM {schema}.queue_again(
            queue_id, group_key, entry_ids[done + 1:], ordinals[done + 1:], lates[done + 1:]
        );
    END IF;
END
$function$;
