"""`python -m ttc_eval.models.check_weights`: whether the embedded model's weights are those that its config names."""

from __future__ import annotations

import sys

from omegaconf import OmegaConf

from ttc_eval.errors import UserError
from ttc_eval.models.local import file_sha256, weights_path
from ttc_eval.resources import share


def main() -> int:
    """0 when the hash agrees, else 1 with what was found."""
    config = OmegaConf.load(share() / "configs" / "model" / "smollm2.yaml")
    try:
        path = weights_path(config.weights)
    except UserError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    found = file_sha256(path)
    if found == config.sha256:
        return 0
    print(f"{path} has sha256 {found}, expected {config.sha256}", file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main())
