"""Management commands and the checks of a deployment."""
