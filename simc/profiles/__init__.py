"""Profiles: the simulator's input language, parsed exactly as the simulator parses it."""
