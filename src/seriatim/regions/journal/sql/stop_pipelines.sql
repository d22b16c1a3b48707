-- End all leases of pipelines.
UPDATE {schema}.pipelines
SET claim = NULL, region = NULL, holder = NULL, lease_until = NULL, held_since = NULL
WHERE claim IS NOT NULL
