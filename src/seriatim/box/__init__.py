"""The message box: its API, and its implementation in a PostgreSQL schema."""
