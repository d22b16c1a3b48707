-- The door of another box that has a role.
-- is: sql, definer
CREATE OR REPLACE FUNCTION {schema}.link_trace(frame bytea) RETURNS bytea
RETURN {schema}.link_trace_as(NULL, frame);
