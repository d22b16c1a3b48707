-- Pair a link again, and believe the box at its other end.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.link_believe(of_name text) RETURNS void
BEGIN ATOMIC
    UPDATE {schema}.known_links AS one SET peer_incarnation = 0, older_at = NULL, older_incarnation = NULL
    WHERE one.link = of_name;
END;
