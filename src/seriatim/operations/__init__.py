"""The operations of operators: views and actions."""
