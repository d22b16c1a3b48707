"""Route: each message once for every destination whose filter it matches; `stage.py` adds the stage to a query."""
