-- Purpose: the message of the row {0} has no reference left.
NOT EXISTS (
    SELECT FROM {schema}.entries AS other
    WHERE other.arrival_id = {0}.arrival_id AND other.position = {0}.position
) AND NOT EXISTS (
    SELECT FROM {schema}.aside AS other
    WHERE other.arrival_id = {0}.arrival_id AND other.position = {0}.position
) AND NOT EXISTS (
    SELECT FROM {schema}.history AS other
    WHERE other.arrival_id = {0}.arrival_id AND other.position = {0}.position
) AND NOT EXISTS (
    SELECT FROM {schema}.unrouted AS other
    WHERE other.arrival_id = {0}.arrival_id AND other.position = {0}.position
) AND NOT EXISTS (
    SELECT FROM {schema}.to_route AS other
    WHERE other.arrival_id = {0}.arrival_id AND other.position = {0}.position
) AND NOT EXISTS (
    SELECT FROM {schema}.replies AS other
    WHERE other.arrival_id = {0}.arrival_id AND other.position = {0}.position
) AND NOT EXISTS (
    SELECT FROM {schema}.region_numbers AS other
    WHERE other.arrival_id = {0}.arrival_id AND other.position = {0}.position AND other.beside
)
