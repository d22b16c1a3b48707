-- Take its id from a box that becomes a template: each copy takes one of its own when it is first opened.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.forget_identity() RETURNS void
BEGIN ATOMIC
    DELETE FROM {schema}.box_identity;
END;
