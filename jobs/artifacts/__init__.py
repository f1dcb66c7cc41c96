"""Files of jobs: storage, retention, and the credentials that are deleted with them.

A file is saved before its row, and the row is committed with the end of the job, so a row never lacks its file.
After a crash, a file can lack its row; retention finds it by its name and removes it. Files are compressed so that
any part of them can be read without the rest.

Retention makes links, files and details unavailable at the moment when the period ends, and removes them soon
after. Game credentials are in Redis only, encrypted, and never outlive the job by more than the sweep needs.

Start with `artifact_files`; `retention` has the rules of expiry, `storage` the bytes that count against a plan.
"""
