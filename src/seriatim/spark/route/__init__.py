"""Route: each message once for every destination that wants it; `stage.py` is its door."""
