"""Process: the user's code is called with the messages of a pipeline; `stage.py` is its door."""
