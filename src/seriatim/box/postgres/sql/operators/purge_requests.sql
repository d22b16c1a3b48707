-- Purpose: forget the next requests whose time is over, with their replies.
-- Locks: the deleted rows.
-- Index: open_requests_by_end, open_requests_pkey, replies_of_request.
WITH old AS MATERIALIZED (
    SELECT request_id FROM {schema}.open_requests WHERE until < %(before)s ORDER BY until LIMIT %(batch)s
), gone AS (
    DELETE FROM {schema}.open_requests AS asked USING old WHERE asked.request_id = old.request_id RETURNING asked.request_id
)
SELECT count(*) AS requests FROM gone
