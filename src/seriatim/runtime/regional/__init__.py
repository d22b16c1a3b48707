"""Workers of a region: they take the copies in its box, and handle the messages that the journal gives them.

`worker.py` is their door. `intake.py` takes copies of many sessions and asks the journal about all of them at once; `run.py` handles those
of one session; `claims.py` renews what the process has claimed; `holes.py` tells the journal which numbers are missing here.
"""
