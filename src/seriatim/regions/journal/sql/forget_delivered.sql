-- Forget how far a group is delivered: its numbers begin again.
DELETE FROM {schema}.delivered
WHERE pipeline = %(pipeline)s AND destination = %(destination)s AND group_key = %(group)s
RETURNING destination, group_key, through, delivered_at
