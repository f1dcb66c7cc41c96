"""Files of jobs: storage, retention, and the credentials that are deleted with them."""
