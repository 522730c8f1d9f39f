"""New projects: looks at a user's data and writes a TrainingRun file that trains on them."""
