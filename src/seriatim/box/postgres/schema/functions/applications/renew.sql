-- Have a delivery's lease last for a time from now; NULL: the time that was asked for last. Return when it runs out.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.renew(delivery uuid, lease interval DEFAULT NULL, holder text DEFAULT '')
RETURNS timestamptz
AS $function$
DECLARE
    held record := {schema}.at_lease(delivery, holder, 'renew', NULL, '');
    asked interval;
BEGIN
    UPDATE {schema}.deliveries AS one SET period = {schema}.lease_period(coalesce(lease, one.period))
    WHERE one.delivery_id = delivery RETURNING one.period INTO asked;
    UPDATE {schema}.leases AS own SET
        expires_at = CASE own.expires_at WHEN 'infinity' THEN 'infinity' ELSE clock_timestamp() + asked END,
        renewed_at = clock_timestamp()
    WHERE own.token = held.token RETURNING own.expires_at INTO held.until;
    RETURN CASE held.until WHEN 'infinity' THEN clock_timestamp() + asked ELSE held.until END;
END
$function$;
