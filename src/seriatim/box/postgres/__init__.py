"""SQL statements, migrations, and the conversion of the driver's values and errors."""
