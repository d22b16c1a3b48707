-- Purpose: these functions and views, and all their direct and indirect dependents, which would be dropped with them.
-- `is_ours`: it is a function or a view of the box.
-- Index: the catalog's own.
WITH RECURSIVE gone (classid, objid) AS (
    SELECT 'pg_proc'::regclass::oid, routine.oid FROM pg_proc AS routine
    WHERE routine.pronamespace = %(schema)s::text::regnamespace AND routine.proname = ANY (%(names)s::text[])
    UNION
    SELECT 'pg_class'::regclass::oid, class.oid FROM pg_class AS class
    WHERE class.relnamespace = %(schema)s::text::regnamespace AND class.relkind = 'v' AND class.relname = ANY (%(names)s::text[])
    UNION
    -- The rule of a view stands for the view.
    SELECT CASE WHEN rule.oid IS NULL THEN link.classid ELSE 'pg_class'::regclass::oid END, coalesce(rule.ev_class, link.objid)
    FROM gone
    JOIN pg_depend AS link ON link.refclassid = gone.classid AND link.refobjid = gone.objid
    LEFT JOIN pg_rewrite AS rule ON link.classid = 'pg_rewrite'::regclass AND rule.oid = link.objid
)
SELECT
    named.type, named.identity, pg_describe_object(gone.classid, gone.objid, 0) AS described,
    named.type IN ('function', 'view') AND named.schema = %(schema)s::text
    AND coalesce(routine.proname, class.relname)::text = ANY (%(ours)s::text[]) AS is_ours
FROM gone
CROSS JOIN LATERAL pg_identify_object(gone.classid, gone.objid, 0) AS named
LEFT JOIN pg_proc AS routine ON gone.classid = 'pg_proc'::regclass AND routine.oid = gone.objid
LEFT JOIN pg_class AS class ON gone.classid = 'pg_class'::regclass AND class.oid = gone.objid
WHERE gone.classid <> 'pg_type'::regclass
ORDER BY named.type DESC, named.identity
