"""The views of operators. Views change nothing and take no locks."""
