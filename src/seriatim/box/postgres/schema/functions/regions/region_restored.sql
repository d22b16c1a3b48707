-- Begin a new incarnation of a restored box, which doesn't vote before it has learned. `known`: the highest known
-- incarnation.
-- is: sql, own path
CREATE OR REPLACE FUNCTION {schema}.region_restored(of_name text, known bigint) RETURNS void
BEGIN ATOMIC
    UPDATE {schema}.region_roles AS role
    SET incarnation = greatest(role.incarnation, known) + 1, box_id = own.box_id, box_incarnation = own.incarnation,
        learned = 0
    FROM {schema}.box_identity AS own
    WHERE role.name = of_name AND (role.box_id, role.box_incarnation) IS DISTINCT FROM (own.box_id, own.incarnation);
END;
