-- Purpose: give a database with a message box a clock that can be moved forward.
-- Locks: the tables of the box, to change the defaults of their columns.
-- How: a name without a schema is looked up along `search_path`. In front of `pg_catalog` stands a schema with clocks of
-- its own; defaults, which PostgreSQL has bound, are set again. Views and functions that it has parsed: `clock.py`.
CREATE SCHEMA seriatim_clock;

CREATE TABLE seriatim_clock.moved (by interval NOT NULL);

INSERT INTO seriatim_clock.moved VALUES ('0');

CREATE FUNCTION seriatim_clock.now() RETURNS timestamptz LANGUAGE sql STABLE
RETURN (SELECT pg_catalog.now() + by FROM seriatim_clock.moved);

CREATE FUNCTION seriatim_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
RETURN (SELECT pg_catalog.clock_timestamp() + by FROM seriatim_clock.moved);

GRANT USAGE ON SCHEMA seriatim_clock TO PUBLIC;

GRANT SELECT ON seriatim_clock.moved TO PUBLIC;

DO $do$
DECLARE
    clocks CONSTANT text := '\m(now|clock_timestamp)\(\)';
    found record;
BEGIN
    FOR found IN
        SELECT oid::regprocedure AS called FROM pg_proc
        WHERE pronamespace = {name}::regnamespace AND 'search_path=pg_catalog, pg_temp' = ANY (proconfig)
    LOOP
        EXECUTE format('ALTER ROUTINE %s SET search_path = seriatim_clock, pg_catalog, pg_temp', found.called);
    END LOOP;
    FOR found IN
        SELECT attrelid::regclass AS of_table, attname AS named, pg_get_expr(adbin, adrelid) AS given
        FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
        JOIN pg_class ON pg_class.oid = adrelid
        WHERE relnamespace = {name}::regnamespace AND pg_get_expr(adbin, adrelid) ~ clocks
    LOOP
        EXECUTE format(
            'ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', found.of_table, found.named,
            regexp_replace(found.given, clocks, 'seriatim_clock.\1()', 'g')
        );
    END LOOP;
END
$do$
