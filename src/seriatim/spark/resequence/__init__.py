"""Resequence: scrambled messages in, ordered messages out; `stage.py` is its door."""
