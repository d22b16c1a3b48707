-- Return the link of a peer that speaks as the box that a frame names: of the key, or, where that is NULL, of the role
-- that calls. NULL: there is none.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.link_of(sender uuid, of_public_key bytea) RETURNS integer
RETURN (
    SELECT one.link_id FROM {schema}.known_links AS one
    WHERE one.peer = sender AND CASE
        WHEN of_public_key IS NULL THEN one.role = to_regrole(quote_ident({schema}.caller()))
        ELSE one.public_key = of_public_key
    END
);
