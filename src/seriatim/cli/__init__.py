"""The command line: options and output. Each command is a file; the packages below do the work."""
