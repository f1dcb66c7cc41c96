"""Jobs from submission to result: the state machine, the queue, execution and the HTTP API."""
