"""The MCP server: tools for assistants and agents at `POST /mcp` (`docs/reference/mcp.md`).

`view` authenticates and limits a request like the API, and `server` answers its message. `tools` lists the tools,
`arguments` reads what a caller sends to them, `answers` has the shapes of their results, and `tasks` shows jobs as
the protocol's tasks.

Messages are read and written with the types of the official package, in its version with tasks. It takes 30 MB of
memory, so a process loads it for its first message: only `server`, `tools` and `tasks` import it, and only `view`
imports these, when it answers. Its own server is not used: it needs an event loop, in which Django refuses queries,
and keeps tasks in the memory of one process. Here, no process keeps anything: the id of a task is that of its job.
"""
