"""Finds the binaries that tests and the local cluster need: pinned here, fetched or built once.

What a tool is used for is no business of this package.
"""
