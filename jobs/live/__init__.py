"""What Redis stores about running jobs: progress, latest output and preview."""
