-- Purpose: the rights of roles.
-- Index: none; the tables are small.
SELECT
    pg_get_userbyid(known.role::oid)::text AS role,
    coalesce(array_agg(place.queue::text ORDER BY place.queue) FILTER (WHERE given.may = 'publish'), '{}') AS publish,
    coalesce(array_agg(place.queue::text ORDER BY place.queue) FILTER (WHERE given.may = 'receive'), '{}') AS receive,
    coalesce(array_agg(place.queue::text ORDER BY place.queue) FILTER (WHERE given.may = 'subscribe'), '{}')
        AS subscribe,
    coalesce(bool_or(given.may = 'route'), FALSE) AS route,
    coalesce(array_agg(given.location ORDER BY given.location) FILTER (WHERE given.may = 'dispense'), '{}') AS dispense,
    ARRAY(SELECT one.type::text FROM {schema}.granted_types AS one WHERE one.role = known.role ORDER BY one.type) AS types,
    coalesce(
        (SELECT one.id_space::text FROM {schema}.id_spaces AS one WHERE one.role = known.role),
        pg_get_userbyid(known.role::oid)::text
    ) AS id_space,
    coalesce(array_agg(place.queue::text ORDER BY place.queue) FILTER (WHERE given.may = 'see'), '{}') AS see,
    coalesce(array_agg(place.queue::text ORDER BY place.queue) FILTER (WHERE given.may = 'see_bodies'), '{}')
        AS see_bodies,
    coalesce(array_agg(place.queue::text ORDER BY place.queue) FILTER (WHERE given.may = 'operate'), '{}') AS operate,
    coalesce(array_agg(given.service ORDER BY given.service) FILTER (WHERE given.may = 'send'), '{}') AS send
FROM (SELECT role FROM {schema}.grants UNION SELECT role FROM {schema}.granted_types) AS known
LEFT JOIN {schema}.grants AS given USING (role)
LEFT JOIN {schema}.queues AS place USING (queue_id)
GROUP BY known.role
ORDER BY role
