"""Tools for operators: registration of builds, checks, metrics, audits, and the pages of the admin that need them.

Management commands and the admin are thin and call the functions here. These use the same guarded moves as the rest
of the service, so an operator cannot bring a job into a state that the service does not know.

- `build_registration` and `html_reports` try a simulator before jobs may use it.
- `doctor` says what is wrong and what to do; `metrics` exports numbers for Prometheus.
- `hold_audit` and `artifact_audit` compare jobs with the ledger and with the storage, for example after a restore.
- `capacity` lists lanes and machines, which operators pause and drain.
- `operator_actions`, `timeline` and `plan_limits` are behind the pages of the admin.

Start with the command or the page whose behaviour you want to change.
"""
