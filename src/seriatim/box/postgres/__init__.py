"""Statements, migrations, and the driver's values and errors."""
