-- Hand out the next entries of a queue, at most `at_most`, without a judge: released ones; in a queue that is first in,
-- first out also arrived ones (as `hand_out_fifo`); in an unordered queue any.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.take_next(
    of_queue integer, declared jsonb, named text, at_most integer, serves boolean, is_set boolean,
    OUT group_key text, OUT entry_ids bigint[], OUT ordinals bigint[], OUT lates boolean[]
)
AS $function$
#variable_conflict use_column
BEGIN
    IF declared #>> '{policy,name}' = 'unordered' THEN
        SELECT array_agg(one.entry_id), array_agg(one.ordinal), array_agg(FALSE) INTO entry_ids, ordinals, lates
        FROM {schema}.take_unordered(of_queue, at_most, -9223372036854775808, declared ->> 'gate' IS NOT NULL) AS one;
        RETURN;
    END IF;
    IF serves OR declared #>> '{policy,name}' = 'fifo' AND declared -> 'policies' = '{}'
        AND declared -> 'opens' = 'null' AND declared -> 'closes' = 'null' AND declared -> 'gate' = 'null'
        AND NOT EXISTS (
            SELECT FROM {schema}.known_subscriptions AS one WHERE one.queue_id = of_queue AND one.state <> 'started'
        ) THEN
        SELECT min(one.group_key), array_agg(one.entry_id), array_agg(one.ordinal), array_agg(one.late)
        INTO group_key, entry_ids, ordinals, lates
        FROM {schema}.hand_out_fifo(
            of_queue, named, at_most, NULL, (SELECT max(change.version) FROM {schema}.changes AS change),
            ARRAY[0, 0, 0, 0, {NOTHING}, 0, {NEVER}, 0, {NEVER}, 0, {NOTHING}], serves, FALSE, -9223372036854775808,
            '0', '{}'
        ) AS one;
    END IF;
    IF entry_ids IS NULL AND NOT serves THEN
        SELECT * INTO group_key, entry_ids, ordinals, lates
        FROM {schema}.take_released(of_queue, named, at_most, is_set, FALSE);
        IF entry_ids IS NULL THEN
            SELECT * INTO group_key, entry_ids, ordinals, lates
            FROM {schema}.take_released(of_queue, named, at_most, is_set, TRUE);
        END IF;
    END IF;
END
$function$;
