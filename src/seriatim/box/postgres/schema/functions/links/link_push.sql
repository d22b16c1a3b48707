-- The two doors of another box that has a role. Its question is remembered in the session: the answers come by the same one.
-- is: sql, definer
CREATE OR REPLACE FUNCTION {schema}.link_push(frame bytea) RETURNS bytea
RETURN {schema}.link_push_as(NULL, frame, nullif(current_setting('seriatim.link_question', TRUE), '')::uuid);
