"""Simulator builds: the registry and the registration of an executable."""
