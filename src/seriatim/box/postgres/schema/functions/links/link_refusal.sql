-- Return a frame that refuses another one, of which nothing was used. `why`: for people.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.link_refusal(receiver uuid, why text) RETURNS bytea
RETURN {schema}.link_frame(4, receiver, 0, 0, 0, 0, convert_to(left(why, 250), 'UTF8'));
