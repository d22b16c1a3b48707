-- Return whether the messages on the way from a side to a service begin with the side's first message: then it has no
-- other side there yet, or one that has received nothing.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.first_waits(of_handle uuid, its_service text) RETURNS boolean
RETURN (
    SELECT one.sequence = 0 FROM {schema}.known_transmission AS one
    WHERE one.to_service = its_service COLLATE "C" AND one.handle = of_handle ORDER BY one.transmission_id LIMIT 1
);
