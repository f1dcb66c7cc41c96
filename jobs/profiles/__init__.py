"""Profile texts: the simulator's input language, understood as the simulator itself understands it."""
