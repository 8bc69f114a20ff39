"""The sweep: the Hydra app, its launcher's other half, the runner, and what the terminal shows.

Why one process: the cells of a sweep share one model, one ledger and one pool of draws; separate processes would each
pay for their own.

| module | role |
|---|---|
| `config` | typed configs: what YAML and overrides say, checked before anything is spent |
| `app` | the Hydra application and its errors |
| `prepare` | a config becomes a `Cell`: problems loaded, everything refused that can be refused |
| `history` | what the study already holds: solutions, draws, the sweep to go on with |
| `state` | how far the sweep is |
| `rows` | what goes into the journal |
| `runner` | runs all cells in one event loop |
| `progress`, `summary` | what the terminal shows meanwhile and afterwards |
"""
