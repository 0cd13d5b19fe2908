"""One self-contained HTML page about suppressions: a table, plots, and a viewer that shows what removed each box.

>>> from hashnms import Suppression
>>> from hashnms.report import outcome_of
>>> outcome_of(Suppression.parse("nms:0.5"), [[0, 0, 9, 9], [0, 0, 9, 8], [20, 0, 29, 9]], [0.5, 0.9, 0.7]).suppressor
array([1, 1, 2])
"""

from hashnms.report.data import Method, Outcome, Picture, Report
from hashnms.report.outcomes import outcome_of, parameters_of
from hashnms.report.page import write_report

__all__ = ["Method", "Outcome", "Picture", "Report", "outcome_of", "parameters_of", "write_report"]
