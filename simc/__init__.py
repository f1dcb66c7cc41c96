"""SimulationCraft's formats: command line, progress, messages, reports and (in `profiles`) its input language."""
