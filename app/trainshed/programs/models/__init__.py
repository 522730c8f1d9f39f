"""Models of the built-in programs: plain `torch.nn` modules and how to build them.

One file a model: its options, its `build` function, its module. No Ray, no data,
no training. Shape letters used here: B rows of a batch, C channels, H and W height
and width of a picture, T tokens, D width of a token, N heads, F features, K classes.
"""
