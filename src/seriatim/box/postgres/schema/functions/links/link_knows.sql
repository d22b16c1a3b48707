-- Return whether a key is that of a peer; a role without a right can't even call.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.link_knows(of_public_key bytea) RETURNS boolean
RETURN of_public_key IS NULL OR EXISTS (SELECT FROM {schema}.known_links AS one WHERE one.public_key = of_public_key);
