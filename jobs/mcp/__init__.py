"""The MCP server: tools for assistants and agents at `POST /mcp` (`docs/reference/mcp.md`).

`view` authenticates and limits a request like the API, and `server` answers its message. `tools` lists the tools,
`arguments` reads their arguments, `answers` has the shapes of their results, and `tasks` presents jobs as the
protocol's tasks.

Messages are read and written with the types of the official package, in its version with tasks. The package takes
30 MB of memory, so a process loads it at its first message: only `server`, `tools` and `tasks` import it, and only
`view` imports these, when it answers. The package's server is not used, because it needs an event loop, in which
Django refuses queries, and keeps tasks in the memory of one process. Here, processes keep no state: the id of a
task is the id of its job.
"""
