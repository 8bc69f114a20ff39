"""What a user waits for before anything happens: imports and help, as whole processes, beside a bare interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import ttc_eval": ["-c", "import ttc_eval"],
    "ttc-eval --help": ["-m", "ttc_eval.cli", "--help"],
    "ttc-eval sweep --help": ["-m", "ttc_eval.cli", "sweep", "--help"],
}


def main(runs: int = 7) -> None:
    for name, arguments in COMMANDS.items():
        times = []
        for _ in range(runs):
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - started)
        print(f"{name:24s} median {statistics.median(times):.3f} s, least {min(times):.3f} s")


if __name__ == "__main__":
    main()
