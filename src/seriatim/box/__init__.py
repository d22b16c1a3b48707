"""The message box: a PostgreSQL schema and a small API in front of it. The only place that knows `psycopg`."""
