-- Refuse a caller that has no right at all, and serves no callers with tokens.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.permit_anything() RETURNS void
AS $function$
BEGIN
    IF NOT {schema}.is_owner() AND NOT EXISTS (
        SELECT FROM (SELECT role FROM {schema}.grants UNION ALL SELECT server FROM {schema}.tokens) AS known (role)
        WHERE pg_has_role({schema}.caller(), known.role::oid, 'USAGE')
    ) THEN
        RAISE EXCEPTION 'the role "%" may do nothing in this message box', {schema}.caller() USING
            ERRCODE = 'insufficient_privilege',
            HINT = 'seriatim box grant';
    END IF;
END
$function$;
