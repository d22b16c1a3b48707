-- Make the box a region. `known`: the highest known incarnation of this region, 0: none. The replacement of a lost
-- box votes when it has taken over the numbers of the others.
-- is: sql, own path
CREATE OR REPLACE FUNCTION {schema}.region_begin(of_name text, as_region text, known bigint) RETURNS void
BEGIN ATOMIC
    INSERT INTO {schema}.region_roles (name, region, incarnation, box_id, box_incarnation, learned)
    SELECT of_name, as_region, known + 1, own.box_id, own.incarnation, CASE known WHEN 0 THEN 2 ELSE 0 END
    FROM {schema}.box_identity AS own
    ON CONFLICT DO NOTHING;
END;
