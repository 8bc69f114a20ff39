"""The commands of `ttc-eval` beside `sweep`: one module each, with `add_arguments(parser)` and `run(options) -> exit code`."""
