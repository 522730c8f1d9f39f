"""The command line `trainshed`: words to calls; what a library user needs is decided elsewhere."""
