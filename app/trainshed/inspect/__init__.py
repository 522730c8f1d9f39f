"""The data commands: show, count, summarize, shuffle and write rows.

Contains the parsing of SOURCE, values as text, counting, shuffling and writing. Not: Ray, which
would take longer to start than most of this, except in `generated_rows`, whose rows need it.
`data/sources` reads files.
"""
