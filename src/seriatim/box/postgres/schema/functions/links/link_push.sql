-- Take a batch or answers of a box with a role, and return the answer of its door. The question is that of this
-- session's `link_fetch`.
-- is: sql, definer
CREATE OR REPLACE FUNCTION {schema}.link_push(frame bytea) RETURNS bytea
RETURN {schema}.link_push_as(NULL, frame, nullif(current_setting('seriatim.link_question', TRUE), '')::uuid);
