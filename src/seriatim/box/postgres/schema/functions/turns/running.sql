-- Return the transactions in progress, in the form of rows: `xmax`.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.running() RETURNS xid[]
RETURN ARRAY(
    SELECT (one::text::bigint & 4294967295)::text::xid FROM pg_snapshot_xip(pg_current_snapshot()) AS one
);
