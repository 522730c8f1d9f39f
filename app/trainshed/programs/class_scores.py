"""Predictions from the logits of a classifier."""

from torch import Tensor


def class_scores(logits: Tensor) -> dict[str, Tensor]:
    """Return the class, its probability (B,), and the scores of all classes (B, K) for logits."""
    scores = logits.float().softmax(dim=1)
    probability, prediction = scores.max(dim=1)
    return {"prediction": prediction, "probability": probability, "scores": scores}
