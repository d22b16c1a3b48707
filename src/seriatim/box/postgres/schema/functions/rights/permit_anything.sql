-- Refuse a caller that has no right at all.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.permit_anything() RETURNS void
AS $function$
BEGIN
    IF NOT {schema}.is_owner() AND NOT EXISTS (
        SELECT FROM {schema}.grants WHERE pg_has_role({schema}.caller(), role::oid, 'USAGE')
    ) THEN
        RAISE EXCEPTION 'the role "%" may do nothing in this message box', {schema}.caller() USING
            ERRCODE = 'insufficient_privilege',
            HINT = 'seriatim box grant';
    END IF;
END
$function$;
