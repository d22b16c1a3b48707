"""The tables of what `operations` returns, which every face shows: a module a noun, and `table.py`, what a table is."""
