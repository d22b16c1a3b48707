-- Answer a question about messages: the door for another box that has a role here. See `link_trace_as`.
-- is: sql, definer
CREATE OR REPLACE FUNCTION {schema}.link_trace(frame bytea) RETURNS bytea
RETURN {schema}.link_trace_as(NULL, frame);
