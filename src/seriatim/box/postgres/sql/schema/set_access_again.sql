-- Purpose: let all roles call what they need of the functions that migrations have made. A role may have been dropped.
-- Locks: the catalog's rows of the schema and of its functions, briefly.
SELECT {schema}.set_access(known.role)
FROM (
    SELECT role FROM {schema}.grants UNION SELECT server FROM {schema}.tokens UNION SELECT role FROM {schema}.known_links
) AS known (role)
JOIN pg_roles AS present ON present.oid = known.role::oid
