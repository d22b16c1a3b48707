-- The sources of `handed_message` beside the `entry`. See `decide` for the ANY.
JOIN {schema}.spool AS stored
    ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
JOIN {schema}.locations AS place ON place.location = run.location
