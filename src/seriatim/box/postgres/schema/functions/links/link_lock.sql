-- Try to become the only sender (`is_ours`) or receiver of a link, until the transaction ends.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.link_lock(of_link integer, is_ours boolean) RETURNS boolean
RETURN pg_try_advisory_xact_lock(
    hashtextextended('{schema} link ' || of_link || CASE WHEN is_ours THEN ' out' ELSE ' in' END, 0)
);
