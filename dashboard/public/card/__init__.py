"""The picture of a job for link previews: its content, its drawing, and its address."""
