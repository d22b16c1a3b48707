"""Resequence: scrambled messages in, ordered messages out; `stage.py` adds the stage to a query."""
