"""Front: one stage from text to packets, in place of receive, stamp and route one after another; `chosen.py` says for which pipelines."""
