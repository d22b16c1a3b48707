-- Say that all sessions whose keys are below this one are over.
UPDATE {schema}.queues SET over_before = %(before)s
WHERE name = %(name)s AND queue = %(queue)s
    AND (over_before IS NULL OR over_before COLLATE "C" < %(before)s COLLATE "C")
