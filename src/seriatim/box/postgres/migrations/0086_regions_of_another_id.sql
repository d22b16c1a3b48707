-- A box that was given another id counts as restored in two regions, as one in another incarnation does: an operator who knows that a box
-- went back in time on its own server, which the box can't notice, gives it a new id.
ALTER TABLE {schema}.region_roles ADD COLUMN box_id uuid;
UPDATE {schema}.region_roles AS role SET box_id = own.box_id FROM {schema}.box_identity AS own;

CREATE OR REPLACE FUNCTION {schema}.region_role(
    of_name text, OUT region text, OUT incarnation bigint, OUT learned integer, OUT fence bigint, OUT is_restored boolean,
    OUT queue_ids integer[]
) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT role.region, role.incarnation, role.learned, role.fence,
        (role.box_id, role.box_incarnation) IS DISTINCT FROM (own.box_id, own.incarnation),
        ARRAY(SELECT regional.queue_id FROM {schema}.region_queues AS regional WHERE regional.name = of_name ORDER BY 1)
    FROM {schema}.region_roles AS role CROSS JOIN {schema}.box_identity AS own
    WHERE role.name = of_name;
END;

CREATE OR REPLACE FUNCTION {schema}.region_begin(of_name text, as_region text, known bigint) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO {schema}.region_roles (name, region, incarnation, box_id, box_incarnation, learned)
    SELECT of_name, as_region, known + 1, own.box_id, own.incarnation, CASE known WHEN 0 THEN 2 ELSE 0 END
    FROM {schema}.box_identity AS own
    ON CONFLICT DO NOTHING;
END;

CREATE OR REPLACE FUNCTION {schema}.region_restored(of_name text, known bigint) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    UPDATE {schema}.region_roles AS role
    SET incarnation = greatest(role.incarnation, known) + 1, box_id = own.box_id, box_incarnation = own.incarnation, learned = 0
    FROM {schema}.box_identity AS own
    WHERE role.name = of_name AND (role.box_id, role.box_incarnation) IS DISTINCT FROM (own.box_id, own.incarnation);
END;
