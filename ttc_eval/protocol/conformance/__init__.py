"""The conformance suite of TTC-v2: what a server must do, checked from outside. See docs/serve.md."""
