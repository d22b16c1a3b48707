-- Note that the box has learned from one more party; its votes for earlier messages don't count any more. FALSE: it was
-- restored once more meanwhile.
-- is: own path
CREATE OR REPLACE FUNCTION {schema}.region_learned(of_name text, at_incarnation bigint, step integer) RETURNS boolean
AS $function$
BEGIN
    UPDATE {schema}.region_roles AS role SET learned = step, votes_after = nextval('{schema}.arrival_ids')
    WHERE role.name = of_name AND role.incarnation = at_incarnation AND role.learned = step - 1;
    RETURN FOUND;
END
$function$;
