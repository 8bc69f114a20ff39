"""The store of a study: a journal per sweeping process, and one DuckDB file that a loader fills from the journals.

Why: a response that was paid for must survive `kill -9`, a notebook must be able to read while a sweep writes, and many
processes must be able to write one study. DuckDB gives a file to one writer at a time, so nobody holds it for long.

| object | role | lifetime |
|---|---|---|
| `Journal` | appends lines to `<study>.journal/<process>.jsonl` and says when they are on disk | one process |
| `load` | moves journal lines into the DuckDB file, each exactly once | one call; holds the file open meanwhile |
| `reading` | opens the file for reading and closes it again | one query |
"""

from ttc_eval.store.journal import Journal, JournalFailed
from ttc_eval.store.loader import LoadReport, load
from ttc_eval.store.paths import StudyPaths
from ttc_eval.store.reader import reading

__all__ = ["Journal", "JournalFailed", "LoadReport", "StudyPaths", "load", "reading"]
