-- Take the next `how_many` numbers of a location. The caller holds the location until its transaction ends, and may
-- turn its numbers over, so this needs the right `dispense`. One call takes at most a million, or a whole turn of the
-- location's numbers if that is more, so nobody comes to the end of the epochs. Return the first number with its epoch,
-- and the last number of the location's turns.
-- is: definer, generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.take_numbers(
    at_location text, how_many bigint, OUT epoch bigint, OUT number bigint, OUT last_number bigint
)
AS $function$
DECLARE
    most bigint := greatest(1000000, coalesce(
        (SELECT place.last_number FROM {schema}.locations AS place WHERE place.location = at_location), {LAST_NUMBER}
    ));
BEGIN
    IF NOT {schema}.is_owner() AND NOT EXISTS (
        SELECT FROM {schema}.grants AS one
        WHERE one.may = 'dispense' AND one.location = at_location
            AND pg_has_role({schema}.caller(), one.role::oid, 'USAGE')
    ) THEN
        RAISE EXCEPTION 'the role "%" may not dispense tickets of the location "%"', {schema}.caller(),
            at_location USING
            ERRCODE = 'insufficient_privilege',
            HINT = 'seriatim box grant';
    END IF;
    IF current_setting('seriatim.enabled_{schema_name}', TRUE) IS DISTINCT FROM 'yes' THEN
        PERFORM {schema}.check_enabled();
    END IF;
    IF (length(at_location) BETWEEN 1 AND 128) IS NOT TRUE THEN
        RAISE EXCEPTION 'the name of a location has 1 to 128 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF (how_many BETWEEN 1 AND most) IS NOT TRUE THEN
        RAISE EXCEPTION '% tickets can''t be dispensed at once: 1 to %', coalesce(how_many::text, 'NULL'), most USING
            ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT run.epoch, run.number INTO epoch, number FROM {schema}.dispense(at_location, how_many) AS run;
    SELECT place.last_number INTO last_number
    FROM {schema}.locations AS place WHERE place.location = at_location;
END
$function$;
