"""A `node` that runs TypeScript: the system's own, or one that removes the types first."""

import shutil
import subprocess
from pathlib import Path

from tests.npm import Missing, Package

COMPILER = Package(
    name="typescript",
    version="5.9.3",
    sha256="10e108c9cf7d5f2879053dff18515fb405abf2ccef63eaaf017d9c571687a1d3",
)
TRANSPILE = """
const ts = require(process.argv[2]), fs = require("node:fs");
const options = {target: "esnext", module: "esnext"};
const {outputText, diagnostics} = ts.transpileModule(
  fs.readFileSync(process.argv[3], "utf8"), {compilerOptions: options, reportDiagnostics: true});
for (const found of diagnostics) console.error(ts.flattenDiagnosticMessageText(found.messageText, " "));
fs.writeFileSync(process.argv[4], outputText);
process.exit(diagnostics.length);
"""
SHIM = """#!/bin/sh
{node} {transpile} {compiler} "$1" "${{1%.ts}}.mjs" && exec {node} "${{1%.ts}}.mjs"
"""


def provide_node(folder: Path) -> None:
    """Write a `node` for TypeScript into a folder of PATH unless the system's has it. Raises Missing."""
    node = shutil.which("node")
    if node is None:
        raise Missing("Install Node.js to run TypeScript.")
    command = [node, "--print", "process.features.typescript ?? false"]
    if subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() != "false":
        return
    transpile, shim = folder / "transpile.cjs", folder / "node"
    transpile.write_text(TRANSPILE)
    shim.write_text(
        SHIM.format(node=node, transpile=transpile, compiler=COMPILER.folder() / "lib" / "typescript.js")
    )
    shim.chmod(0o755)
