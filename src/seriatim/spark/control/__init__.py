"""Control: what a query's operator is told beside its data (ticks and the entries of a pipeline's control log); one source for all."""
