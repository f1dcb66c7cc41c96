"""The HTTP API of jobs: thin serializers and views over submission, lifecycle and queries."""
