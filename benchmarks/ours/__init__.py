"""Training functions of our side: what a user writes with `trainshed.current()`, and a clock."""
