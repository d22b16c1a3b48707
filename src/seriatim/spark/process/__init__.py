"""Process: the user's code over the messages of a pipeline; `stage.py` is its door."""
