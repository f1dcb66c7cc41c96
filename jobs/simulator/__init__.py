"""The simulator as a program: its command line, its process, its progress and its reports."""
