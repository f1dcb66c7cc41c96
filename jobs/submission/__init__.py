"""From a request to an accepted job."""
