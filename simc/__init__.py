"""SimulationCraft: its profile language, its command line, its output and its reports.

    analysis = profiles.analysis.analyse(text, rules=Rules(), bounds=Bounds(iterations=10_000, target_error=0.1))
    command.arguments(threads=2, json_version=2, html=False)
    meter = ProgressMeter(expected_phases=1 + len(analysis.profilesets))
    meter.feed("Generating Baseline: 1/1 [==>....] 30/100 2.5")
    report = report_reader.read_report(stream, max_bytes=1 << 28)

Everything that a simulator or a user wrote is untrusted: each reader has limits on time and memory, and fails
with an exception that says why. All versions since 2020 are understood; their formats are described in
`docs/reference/simulator-command-line.md`.

The doors, in the order of a run: `profiles` (the input), `command` (the arguments), `progress` and `messages`
(the output), `report_reader` and `reports` (the result), `report_merge` (one report of several shards),
`shortfall` (what a result lacks) and `csv_report`. Start with `reports`.

Nothing here runs a simulator or knows about jobs.
"""
