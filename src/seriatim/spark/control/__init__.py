"""Control: the input of a query's operator beside its data, which is ticks and the entries of a pipeline's control log; one source for
all.
"""
