-- Refuse meanings that no message brings along: a turn would write what it wasn't given, or fail for all receivers. The
-- arrays are those of `enter`, of a role.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.permit_meanings(entry_queues integer[], entry_meanings text[]) RETURNS void
AS $function$
BEGIN
    IF entry_meanings IS NOT NULL AND (
        cardinality(entry_meanings) <> cardinality(entry_queues) OR EXISTS (
            SELECT FROM unnest(entry_queues, entry_meanings) AS one (queue_id, meaning)
            JOIN {schema}.queues AS known USING (queue_id)
            CROSS JOIN LATERAL (
                SELECT one.meaning::bigint[] AS said,
                    known.definition @? '$.policy.by ? (@ == "position")'
                    OR known.definition @? '$.policies.*.by ? (@ == "position")' AS by_position
            ) AS its
            WHERE its.said IS NOT NULL AND (
                array_ndims(its.said) = 1 AND array_lower(its.said, 1) = 1
                AND its.said[1] & ~({number.VOID} | {number.POSITION}) IN (0, {number.BASE}, {number.RESTARTS}, {number.UNNUMBERED})
                AND cardinality(its.said) = 4 + CASE
                    WHEN its.said[1] & {number.POSITION} = 0 THEN 0
                    WHEN its.by_position AND its.said[2] BETWEEN 1 AND {MAX_POSITION_BYTES} THEN (its.said[2] + 7) / 8
                END
            ) IS NOT TRUE
        )
    ) THEN
        RAISE EXCEPTION 'an entry has a meaning that no message gives it' USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$function$;
