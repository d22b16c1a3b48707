"""The message box: the API, and what runs it in a PostgreSQL schema. Only this package uses `psycopg`."""
