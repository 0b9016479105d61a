"""`python -m unmask` is the `unmask` command."""

from unmask.cli import main

raise SystemExit(main())
