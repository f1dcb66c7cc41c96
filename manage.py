#!/usr/bin/env python3
"""Django's command line, and the command `local`, which runs without Django because it creates its settings."""

import gc
import os
import sys


def main() -> int:
    if sys.argv[1:2] == ["local"]:
        from localstack.cli import main as local

        return local(sys.argv[2:])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
    # Collect garbage rarely: imported modules never become garbage, and scanning them takes a tenth of the start.
    gc.set_threshold(50_000, 20, 20)
    from simservice.operations.commands import execute

    return execute(sys.argv)


if __name__ == "__main__":
    raise SystemExit(main())
