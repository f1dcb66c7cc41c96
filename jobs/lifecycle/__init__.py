"""Every change of the status of a job, a run or a shard."""
