"""The embedded PostgreSQL: start it, share it, stop it."""
