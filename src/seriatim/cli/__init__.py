"""The command line: what people type and read. Each command is a file; what it does lies below."""
