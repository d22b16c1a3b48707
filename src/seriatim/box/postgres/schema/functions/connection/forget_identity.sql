-- Remove the id of a box that becomes a template: each copy takes an id when it is first opened.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.forget_identity() RETURNS void
BEGIN ATOMIC
    DELETE FROM {schema}.box_identity;
END;
