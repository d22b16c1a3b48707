-- Return the queues for which the caller has a right, where it isn't the owner.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.permitted(what text) RETURNS integer[]
RETURN ARRAY(
    SELECT DISTINCT queue_id FROM {schema}.grants
    WHERE may = ANY ({schema}.giving(what)) AND pg_has_role({schema}.caller(), role::oid, 'USAGE') ORDER BY queue_id
);
