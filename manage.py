#!/usr/bin/env python3
"""Django's command line, and `local`, which brings up what Django's settings need before Django loads."""

import os
import sys


def main() -> int:
    if sys.argv[1:2] == ["local"]:
        from localstack.cli import main as local

        return local(sys.argv[2:])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
