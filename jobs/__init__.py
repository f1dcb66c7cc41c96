"""Jobs from submission to result.

A job is a row with a status: pending, queued, starting, running, and then completed, failed, cancelled or timed
out. Every change of the status is one guarded UPDATE in `lifecycle`, in the transaction that also writes the job's
history, its credits and its webhook event. So a job ends once, is billed once, and a process that died never blocks
it.

The chapters, in the order of a job's life:
- `submission` turns a request into a stored job; `planning` reads the profile and plans its stages.
- `queue` wakes slots and lets them claim jobs; `execution` runs a claimed job and stores its outputs.
- `live` shows a running job, `results` an ended one; `artifacts` keeps its files until retention removes them.
- `api` is the HTTP API; `operations` and `admin` are for operators.

Below them are `models` (the tables), `enums`, `errors`, `registry` (the builds), `failure_causes` (why runs failed)
and `api_mode` (the two variants of the API). Two libraries that could be used without this service are outside:
`sandbox` runs an untrusted program, and `simc` reads SimulationCraft's language and reports.

Start with `enums.Status` and `models.Job`, then `lifecycle`.
"""
