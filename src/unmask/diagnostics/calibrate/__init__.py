"""RPD settings for a model, read off its own evidence: `unmask calibrate`.

    calibrate(Request("tiny", "wordproblems"), Path("runs/calibration"))

evidence.py   target tokens of masked gold traces, as columns
bounds.py     how large an error rate may be, given tokens that are alike within a question
signal.py     do the layers say anything that confidence does not?
rules.py      each setting from the evidence
decode.py     a trial on validation examples, and the comparison on held-out ones
run.py        the steps in order, into a folder that can be resumed
page.py, charts.py    the report
"""

from __future__ import annotations

from unmask.diagnostics.calibrate.run import Request, calibrate

__all__ = ["Request", "calibrate"]
