"""The actions of operators: mend, requeue, forget, purge, grant."""
