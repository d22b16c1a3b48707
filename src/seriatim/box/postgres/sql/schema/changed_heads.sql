-- Purpose: the functions whose arguments or results differ from those of the function with a longer name.
-- Index: the catalog's own.
SELECT DISTINCT now_is.proname::text AS name
FROM pg_proc AS now_is JOIN pg_proc AS wanted
    ON wanted.pronamespace = now_is.pronamespace AND wanted.proname = now_is.proname || %(suffix)s
WHERE now_is.pronamespace = %(schema)s::regnamespace AND (
    pg_get_function_arguments(now_is.oid) <> pg_get_function_arguments(wanted.oid)
    OR pg_get_function_result(now_is.oid) IS DISTINCT FROM pg_get_function_result(wanted.oid)
)
ORDER BY 1
