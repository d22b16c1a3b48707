-- Whether there is a schema of that name, and whether a journal is in it.
SELECT
    EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = %(schema)s) AS is_there,
    EXISTS (
        SELECT 1 FROM information_schema.tables WHERE table_schema = %(schema)s AND table_name = 'journal'
    ) AS is_journal
