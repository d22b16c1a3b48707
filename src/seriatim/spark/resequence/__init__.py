"""Resequence: put scrambled messages in order; `stage.py` adds the stage to a query."""
