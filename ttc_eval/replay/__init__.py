"""A stored study seen under other rules, without a call.

A replay takes what was measured (texts, tokens, scores, grades, when a call was made) as it stands, and works out again what follows.

| module | the rule that changes |
|---|---|
| `prices` | what a call costs |
| `policies` | the strategy: which of the stored draws are taken, when it stops, what it selects. The code of the strategy is the live one |

`pools` finds what a study holds draws of, `stored` looks them up, and `shared_usage` counts what the samples of a request cost together.
"""

from ttc_eval.replay.prices import Pricing, call_cost, price_ref, replayed, repriced, snapshot

__all__ = ["Pricing", "call_cost", "price_ref", "replayed", "repriced", "snapshot"]
