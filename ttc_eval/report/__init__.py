"""Reports: a study as files, for a design review or a paper."""

from ttc_eval.report.files import write_report

__all__ = ["write_report"]
