"""Diagnostics: is the evidence that RPD rests on there, for this model? (docs/diagnostics.md)

traces.py     gold traces and their filter          arithmetic.py   equations in text
masking.py    which upstream digits are hidden
states.py     one forward per masked state: entropy upstream; tokens, confidence and layers of the target
"""
