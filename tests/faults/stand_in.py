"""The simulator of a fault run: a script that starts at once, and the texts that control it.

A comment in a profile sets its duration and how it ends. Profiles that run in stages or shards lose their comments,
so the names of profilesets set theirs: `o30_2` is the letter of an end, the milliseconds, and a number.
"""

import shutil
from pathlib import Path

# How a profileset ends. LOST_NUMBERS ignores its own iterations and uses the baseline's, as if its shard had lost
# the overrides.
NORMAL, ERROR, CRASH, LOST_NUMBERS = "n", "e", "c", "o"

# Each process writes a random number into its report, and prints it as a warning.
SCRIPT = r"""#!/bin/sh
echo 'SimulationCraft 1120-01'
results=
report() { cat > report.json << END
{"version": "1", "report_version": "2.0.0", "sim": {
    "options": {"iterations": 10},
    "players": [{"name": "Frosty", "collected_data": {"dps": {"mean": 5, "mean_std_dev": 1}}}],
    "profilesets": {"results": [$results]}
}}
END
}
trap 'report; exit 1' INT
nonce=$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')
cat apikey.txt 2>/dev/null
# List the simulations, the baseline first: end, seconds, name and iterations.
AWK '
{ gsub(/"/, "") }
/^# stand-in: / { seconds = $3; end = $4 }
/^iterations=/ { base = substr($0, 12) + 0 }
/^profileset\./ {
    name = option = substr($0, 12)
    sub(/\+?=.*/, "", name)
    sub(/^[^=]*=/, "", option)
    if (!(name in own)) { names[++count] = name; own[name] = 0 }
    if (option ~ /^iterations=/) own[name] = substr(option, 12) + 0
}
END {
    if (end == "") end = "completed"
    if (seconds == "") seconds = count ? 0.02 : 0.2
    print end, seconds, "-", 0
    for (i = 1; i <= count; i++) {
        name = names[i]
        is_timed = name ~ /^[a-z][0-9]+_/
        letter = is_timed ? substr(name, 1, 1) : "n"
        iterations = own[name] && letter != "o" ? own[name] : base
        seconds = is_timed ? substr(name, 2) / 1000 : 0.02
        if (iterations > 1) print letter, seconds, name, iterations
        else print "n", 0, name, iterations
    }
}' profile.simc > work
while read -r end seconds name iterations; do
    [ "$seconds" = 0 ] || { sleep "$seconds" & wait $!; }
    case "$end" in
        error | e) echo 'Error: nothing to simulate' >&2; exit 1;;
        crash | c) kill -SEGV $$;;
    esac
    case "$name" in
        -) continue;;
        d*) mean=10;;
        *) mean=50;;
    esac
    results="$results${results:+, }{\"name\": \"$name\", \"mean\": $mean, \"mean_stddev\": 1, \"stddev\": 5, \
\"min\": 1, \"max\": $nonce, \"iterations\": $iterations}"
done < work
[ -z "$results" ] || echo "Warning: nonce $nonce"
report
"""


def make_fast_stand_in(folder: Path) -> Path:
    """Write the simulator into a folder."""
    folder.chmod(0o755)
    script = folder / "stand-in"
    # The sandbox hides /etc/alternatives.
    awk = Path(shutil.which("awk") or "awk").resolve()
    script.write_text(SCRIPT.replace("AWK", str(awk)))
    script.chmod(0o755)
    return script


def profileset(end: str, milliseconds: int, number: int) -> str:
    """Return the line of a profileset with this end and duration."""
    return f"profileset.{end}{milliseconds}_{number}+=level=1\n"
