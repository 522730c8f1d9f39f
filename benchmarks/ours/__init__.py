"""Programs of our side: training functions that use `trainshed.current()`, and what times them."""
