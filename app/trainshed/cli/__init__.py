"""The command line `trainshed`: words to calls. Nothing is decided here that a library user would need."""
