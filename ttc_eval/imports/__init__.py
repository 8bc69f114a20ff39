"""Samples of other tools, taken into a study so that they get its metrics and can be replayed. See docs/imports.md.

| module | role |
|---|---|
| `samples` | what a sample and a file are, whatever tool wrote them; the options |
| `generic`, `crucible`, `tree_of_thought`, `gsm8k`, `qwen_rm`, `inspect_logs`, `lm_eval` | one format each: a file becomes samples |
| `classing`, `scales` | which answers are the same and right; how numbers become scores |
| `taking` | samples become calls, candidates, grades and cells |
"""

from ttc_eval.imports.formats import FORMATS, Format
from ttc_eval.imports.samples import Classes, Contents, Grades, Options, Sample
from ttc_eval.imports.taking import Taken, take_in

__all__ = ["FORMATS", "Classes", "Contents", "Format", "Grades", "Options", "Sample", "Taken", "take_in"]
