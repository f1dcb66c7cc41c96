"""The pages in a real browser: Chromium without a window, the whole stack behind it, nothing else."""
