"""Independent definitions in plain NumPy and Python, against which the library is tested.

Nothing here imports the library. Each function follows the sentence it defines rather than the fast form.
"""
