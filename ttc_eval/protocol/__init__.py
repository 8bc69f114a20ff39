"""The TTC-v2 protocol (docs/ttc-v2.md): schemas, verifier objects, server and conformance suite. The client is `ttc_eval.wire.ttc_v2`."""
