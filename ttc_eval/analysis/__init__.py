"""What a study says: from its tables to tidy frames, one file per question. Reads only; knows no strategy and no model, but
that `tunables` replays strategies with a second stage over stored draws.

| question | file |
|---|---|
| what was paid for what? | `costs` |
| which cells are worth their cost, and how sure is that? | `frontiers` |
| is A better than B, at equal cost and on the same problems? | `comparisons` |
| what would k draws have given? | `sampling` |
| how does coverage grow? | `scaling` |
| which threshold under a cap on cost, and what does it give elsewhere? | `tuning` |
| which policy is the cheapest that reaches a target? | `recommend` |

Every frame begins with the labels of its cells (`frames.LABELS`). Shares are in [0, 1] with `_low` and `_high`, costs in USD or tokens,
times in seconds. Unknown is NaN or None, never 0; what is left out for want of a price is named in `attrs["excluded"]`.
"""
