-- What is read by people has the plain name, as a view; the table has a name with "known_".
ALTER TABLE {schema}.links RENAME TO known_links;
ALTER TABLE {schema}.services RENAME TO known_services;
ALTER TABLE {schema}.contracts RENAME TO known_contracts;
ALTER TABLE {schema}.transmission RENAME TO known_transmission;

-- A role may send to a service of another box. It needn't be declared here: the other box may have begun.
ALTER TABLE {schema}.grants
ADD COLUMN service text COLLATE "C",
DROP CONSTRAINT grants_may_check, DROP CONSTRAINT grants_each_once, DROP CONSTRAINT grants_queue_check,
ADD CONSTRAINT grants_may_check CHECK (
    may IN ('publish', 'receive', 'subscribe', 'route', 'dispense', 'see', 'see_bodies', 'operate', 'send')
),
ADD CONSTRAINT grants_each_once UNIQUE NULLS NOT DISTINCT (role, may, queue_id, location, service),
ADD CONSTRAINT grants_queue_check CHECK ((queue_id IS NULL) = (may IN ('route', 'dispense', 'send'))),
ADD CONSTRAINT grants_service_check CHECK ((service IS NOT NULL) = (may = 'send'));

ALTER TABLE {schema}.dialog_records ADD COLUMN said_at timestamptz NOT NULL DEFAULT clock_timestamp();

-- The first record of a side that couldn't be obeyed says since when, and why.
ALTER TABLE {schema}.dialog_inbox ADD COLUMN failed_at timestamptz, ADD COLUMN problem text;
