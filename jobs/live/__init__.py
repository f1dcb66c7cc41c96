"""What is known of a running job before it ends: progress, the last lines of output, and a preview of the result.

All of it is in Redis, written at most twice a second and only if it changed, and it expires. It may be lost: the
final progress is in the job's row, and the result is in its report. No code may decide anything about a job by what
it reads here. The keys contain the attempt, so a stale attempt is never shown.

Start with `progress.Publisher`, which the worker calls, and `progress.progress_of`, which readers call.
"""
