"""Builds the images, with docker or without it, and keeps them where a cluster can load them from.

What is in an image is in its Dockerfile; nothing here may be needed to build one by hand.
"""
