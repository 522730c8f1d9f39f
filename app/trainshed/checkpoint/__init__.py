"""Checkpoints: what is saved, how it is verified and restored, for every wrapper of a model.

Contains the files and their manifest, the states of models, optimizers and random numbers, the
rules for loading, and Ray Train's records of earlier attempts. Not: when to save.
"""
