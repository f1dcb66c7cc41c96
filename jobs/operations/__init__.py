"""Operators' tools: build registration, checks, audits, metrics and the story of a job."""
