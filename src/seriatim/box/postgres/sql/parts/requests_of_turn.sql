-- Purpose: `asked`: the requests for the groups {1} of the queue {0}. All else of a turn takes the queue from it, and so
-- is read after it: then the turn has seen what these looks were written for, and its result deletes them.
(
    SELECT
        {0}::integer AS queue_id,
        array_agg(place) FILTER (WHERE action <> 'look') AS request_places,
        array_agg(request_id) FILTER (WHERE action <> 'look') AS request_ids,
        array_agg(action) FILTER (WHERE action <> 'look') AS actions,
        array_agg(request_id) FILTER (WHERE action = 'look') AS look_ids
    FROM {schema}.turn_requests({0}, {1})
) AS asked
