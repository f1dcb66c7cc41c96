"""The queue of waiting jobs: announcements, claims, the sweep and the forecast."""
