-- Return over which link a new dialog with a service goes: to one of its boxes, by turns, of those whose link isn't known to
-- be down, if there is one. NULL: the service is of this box, or unknown.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.choose_box(to_services text[]) RETURNS integer
RETURN (
    SELECT road.link_id
    FROM {schema}.known_services AS place CROSS JOIN LATERAL (
        SELECT one.link_id, one.last_error, row_number() OVER (ORDER BY one.link_id) AS nth, count(*) OVER () AS roads
        FROM {schema}.known_links AS one WHERE place.definition -> 'at' ? one.link
    ) AS road
    WHERE place.service = ANY (to_services) AND place.queue_id IS NULL
    ORDER BY road.last_error IS NOT NULL, (road.nth + (SELECT nextval('{schema}.far_turns'))) % road.roads LIMIT 1
);
