"""Sign-up, login and passwords."""
