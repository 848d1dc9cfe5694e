"""`python -m lakebed.cli`: the same as the `lakebed` command."""

import sys

from lakebed.cli.main import main

sys.exit(main())
