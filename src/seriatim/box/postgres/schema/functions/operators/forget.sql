-- Begin an empty group anew: as if it were unknown, but in its next incarnation; its place numbers begin at 1.
-- `fresh`: the state of a new group. Return the new incarnation, 0 if the group has only had place numbers, or NULL
-- for an unknown group; then there is nothing to forget. The caller has the lock of the group.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.forget(of_queue integer, of_group text, fresh bigint[]) RETURNS integer
AS $function$
    WITH given AS (
        DELETE FROM {schema}.place_runs WHERE queue_id = of_queue AND group_key = of_group RETURNING first
    ), anew AS (
        UPDATE {schema}.known_groups SET
            incarnation = incarnation + 1, flags = fresh[1], first = fresh[2], next = fresh[3], mark = fresh[4],
            last = fresh[5], ordinal = fresh[6], since = fresh[7], reports = fresh[8], clock = fresh[9],
            suspects = fresh[10], suspect = fresh[11], remembered = '', lives = NULL,
            skipped = '{}', due_at = NULL, ready_rank = NULL, touched_at = now()
        WHERE queue_id = of_queue AND group_key = of_group
        RETURNING incarnation
    )
    SELECT coalesce((SELECT incarnation FROM anew), (SELECT 0 FROM given LIMIT 1))
$function$;
