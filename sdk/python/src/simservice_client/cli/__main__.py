"""Run the command line as `python -m simservice_client.cli`."""

import sys

from simservice_client.cli import main

sys.exit(main())
