-- Return how many messages that would delete.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.transmission_size(OUT messages bigint, OUT dialogs bigint)
BEGIN ATOMIC
    SELECT count(*), count(DISTINCT handle) FROM {schema}.known_transmission;
END;
