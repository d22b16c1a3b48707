-- The last statement before a commit that is sent along: it fails, and so does the commit, if the lease of the pipeline is another's by now.
WITH kept AS (
    UPDATE {schema}.pipelines
    SET lease_until = greatest(lease_until, {STATEMENT_US} + %(lease)s::bigint)
    WHERE name = %(name)s AND claim = %(claim)s AND version = %(version)s
    RETURNING version
)
SELECT CAST(CASE WHEN count(*) = 1 THEN '1' ELSE %(lost)s::text END AS integer) AS kept FROM kept
