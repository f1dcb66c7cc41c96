"""The simulator as a program: its command line, sandbox, process, progress and reports."""
