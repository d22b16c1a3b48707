"""Control: ticks and the entries of a pipeline's control log, as a query's operators read them beside their data; one source for all."""
