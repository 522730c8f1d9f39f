"""Ray where it is bent, one private part a module. Imports nothing of ours.

What is ours comes in as values and calls. With `on_ray` the only importer of Ray's private parts;
tests/ray_seams holds what these parts stand on.
"""
