"""Pages for people: the hosted share pages."""
