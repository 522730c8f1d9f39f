"""A BERT of Hugging Face, built from a config, classifies messages as ham or spam.

Words become numbers by their hash, so that no vocabulary is downloaded.
"""

from typing import NamedTuple
from zlib import crc32

import numpy as np
import torch
import trainshed
from numpy.typing import NDArray
from ray.train.torch import prepare_model
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForSequenceClassification

VOCABULARY = 1000  # 0 is padding


class Messages(NamedTuple):
    """A batch: tokens (rows, words) and mask alike, label (rows,)."""

    tokens: Tensor
    mask: Tensor
    label: Tensor


def encode(batch: dict[str, NDArray[np.generic]]) -> Messages:
    """Return lines such as `spam<tab>win a prize` as padded tokens."""
    kinds, texts = zip(*(str(line).split("\t") for line in batch["text"]), strict=True)
    rows = [
        torch.tensor([1 + crc32(word.encode()) % (VOCABULARY - 1) for word in text.split()])
        for text in texts
    ]
    tokens = pad_sequence(rows, batch_first=True)
    return Messages(tokens, tokens > 0, torch.tensor([kind == "spam" for kind in kinds]).long())


def train(config: dict[str, float]) -> None:
    """Train on the dataset `train`, and evaluate on `valid` after each epoch."""
    bert = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=2,
    )
    model = prepare_model(BertForSequenceClassification(bert))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learningRate"])
    run = trainshed.current()
    run.track(model, optimizer)
    for _ in run.epochs():
        for batch in run.batches("train", of=Messages):
            found = model(batch.tokens, attention_mask=batch.mask, labels=batch.label)
            run.backward_step(found.loss, clip_norm=1.0)
            run.log(loss=found.loss)
        run.evaluate(score)


def score(model: nn.Module, batch: Messages) -> dict[str, Tensor]:
    """Return the accuracy of each row."""
    logits = model(batch.tokens, attention_mask=batch.mask).logits
    return {"accuracy": (logits.argmax(dim=1) == batch.label).float()}
