"""What a job will run: its input text, its stages, and how long they take."""
