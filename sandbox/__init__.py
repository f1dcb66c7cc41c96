"""Run one untrusted program on Linux, confined by several independent layers.

    with PrivateDirectory.create(Path("/var/lib/runs")) as directory:
        process = ConfinedProcess(
            ["/opt/tool", "input"],
            directory=directory,
            sandbox=Sandbox.for_mode("required"),
            limits=limits,
            readable=[Path("/opt")],
            on_line=lambda stream, text: print(stream, text),
        )
        with process:
            ended = process.wait(timeout=None)

`ConfinedProcess` asks the launcher, a small process of this one, which passes the run to a supervisor. The
supervisor forks the program inside the layers, watches its memory and disk, and reaps all of its processes:
ConfinedProcess -> launcher -> supervisor -> confine -> the program.

Promised: a program reads only what is named, writes only to its directory, reaches no network but the caller's
proxy, and leaves no process behind, even if the caller is killed. With `required`, nothing starts if a protection
is missing; `Ended.layers` says which were active. Not promised: protection from flaws in the kernel.

The doors: `process` (start here), `confinement` (what a run can access), `private_directory`, `layers` and
`stop_reasons`. Everything else is behind them. Layers are independent, so bubblewrap can be missing.
"""
