"""`python -m ttc_eval.sweep`, the same as `ttc-eval sweep`."""

import sys

from ttc_eval.sweep.app import main

sys.exit(main(sys.argv[1:]))
