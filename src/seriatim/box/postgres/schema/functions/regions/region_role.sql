-- Return the role of the box under a name, with the box's present incarnation; no row: it has none.
-- is: sql, stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_role(
    of_name text, OUT region text, OUT incarnation bigint, OUT learned integer, OUT fence bigint,
    OUT is_restored boolean,
    OUT queue_ids integer[]
) RETURNS SETOF record
BEGIN ATOMIC
    SELECT role.region, role.incarnation, role.learned, role.fence,
        (role.box_id, role.box_incarnation) IS DISTINCT FROM (own.box_id, own.incarnation),
        ARRAY(SELECT regional.queue_id FROM {schema}.region_queues AS regional WHERE regional.name = of_name ORDER BY 1)
    FROM {schema}.region_roles AS role CROSS JOIN {schema}.box_identity AS own
    WHERE role.name = of_name;
END;
