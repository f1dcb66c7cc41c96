"""Where files are kept: a folder, or a bucket of an S3-compatible service.

Both replace a file that has the same name, keep no part of one whose saving failed, and fail with OSError alone.
"""
