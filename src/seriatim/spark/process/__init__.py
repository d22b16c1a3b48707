"""Process: call the user's code with the messages of a pipeline; `stage.py` adds the stage to a query."""
