"""Predictions from the logits of a classifier."""

from torch import Tensor


def class_scores(logits: Tensor) -> dict[str, Tensor]:
    """Return the class, its probability (B,), and the scores of all classes (B, K) for logits.

    Raises:
        ValueError: for a row whose logits are not numbers, as those of missing values are.
    """
    scores = logits.float().softmax(dim=1)
    if (broken := scores.isnan().any(dim=1)).any():
        row = int(broken.nonzero()[0])
        raise ValueError(
            f"row {row} of the batch: got NaN; expected numbers. A value is missing or infinite: "
            "fill it by a transform"
        )
    probability, prediction = scores.max(dim=1)
    return {"prediction": prediction, "probability": probability, "scores": scores}
