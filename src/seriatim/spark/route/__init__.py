"""Route: each message once for every destination whose filter it matches; `stage.py` is its door."""
