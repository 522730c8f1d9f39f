"""Known faults, put into a copy of the sources one at a time: which tests see them.

Nothing of the product imports this.
"""
