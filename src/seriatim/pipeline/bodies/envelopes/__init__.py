"""Envelopes: the forms in which change logs and event buses tell what happened; a module each."""
