"""Messages and their types: which properties they have, and what is wrong with one."""
