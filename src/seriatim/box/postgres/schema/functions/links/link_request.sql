-- Return a request for the messages that wait at the other box. An unknown box is asked by an id of zeros, and its
-- refusal has its own id.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.link_request(of_link integer, largest bigint) RETURNS bytea
RETURN {schema}.link_frame(3, coalesce((
    SELECT one.peer FROM {schema}.known_links AS one WHERE one.link_id = of_link
), '00000000-0000-0000-0000-000000000000'), 0, 0, 0, largest, '');
