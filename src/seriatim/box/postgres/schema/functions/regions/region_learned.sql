-- Note that the box has learned from one more party; it has voted for none of the numbers that it took over. FALSE:
-- it was restored once more meanwhile.
-- is: own path
CREATE OR REPLACE FUNCTION {schema}.region_learned(of_name text, at_incarnation bigint, step integer) RETURNS boolean
AS $function$
BEGIN
    UPDATE {schema}.region_roles AS role SET learned = step
    WHERE role.name = of_name AND role.incarnation = at_incarnation AND role.learned = step - 1;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    UPDATE {schema}.region_numbers AS one SET voted = FALSE FROM {schema}.region_queues AS regional
    WHERE regional.queue_id = one.queue_id AND regional.name = of_name AND one.voted;
    RETURN TRUE;
END
$function$;
