"""Serving: an OpenAI-compatible API and a page that shows decodes. Needs the `serve` extra.

    command.py  the verb: checks, binds, drains on SIGTERM      app.py        puts the application together
    guard.py    the outermost layer: sizes, key, hosts, headers  schemas.py   what requests and answers look like
    completions.py  /v1                                          watching.py  what the page calls
    catalogue.py    decoders and options a request may name      scheduler.py the thread that steps the loop
    isolation.py    who fails, fails alone                      answers.py   canvas prefix -> text, never retracted
    connection.py   one client's connection, with a clock        view of a run: unmask/view.py

Importing this package imports nothing else: `unmask --help` must not need the extra.
"""
