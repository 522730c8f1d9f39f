"""What is saved, how it is whole, and how it comes back, whatever the model is wrapped in.

Lives here: the files and their manifest, the states of models, optimizers and random numbers, what
may be loaded, and what Ray Train knows of an earlier attempt. Never here: when to save.
"""
