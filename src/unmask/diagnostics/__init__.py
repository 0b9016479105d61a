"""Diagnostics: is the evidence that RPD rests on there, for this model? (docs/diagnostics.md)

traces.py      gold traces and their filter         arithmetic.py    equations in text
masking.py     which upstream digits are hidden
states.py      one forward per masked state: entropy upstream; tokens, confidence and layers of the target
survey.py      the states of many traces, into a folder    upstream.py, layers.py     what they show
decodes.py     decodes by several decoders, into a folder  order.py, admitted.py      what they show
constraints.py ordering constraints as decoders            tables.py                  folders as tables
"""
