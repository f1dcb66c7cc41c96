"""Public host names and IP addresses."""
