"""Scores plain programs of the three frameworks on held-out rows of a table."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

Rows = tuple[NDArray[np.float32], NDArray[np.generic]]


def main(**arguments: object) -> float:
    """Train on `train`; return the error rate or RMSE on `valid`."""
    options = SimpleNamespace(**arguments)
    train, valid = (read(Path(options.data, name), options.label) for name in ("train", "valid"))
    scores = {"xgboost": score_xgboost, "torch": score_torch, "tensorflow": score_keras}
    return scores[options.framework](train, valid, options)


def read(folder: Path, label: str) -> Rows:
    """Return features (rows, features) and labels (rows,); strings become category codes."""
    rows = pq.read_table(folder).to_pandas()
    labels = rows.pop(label)
    if labels.dtype.kind not in "if":
        labels = labels.astype("category").cat.codes
    return rows.to_numpy(np.float32), labels.to_numpy()


def score_xgboost(train: Rows, valid: Rows, options: SimpleNamespace) -> float:
    """Return the score of XGBoost after the last round."""
    import xgboost

    matrix = xgboost.QuantileDMatrix(*train)
    held = xgboost.QuantileDMatrix(*valid, ref=matrix)
    params = {**options.config, "tree_method": "hist", "nthread": 1, "seed": options.seed}
    scores: dict[str, dict[str, list[float]]] = {}
    evaluation = {"evals": [(held, "valid")], "evals_result": scores, "verbose_eval": False}
    xgboost.train(params, matrix, options.epochs, **evaluation)
    return scores["valid"][options.config["eval_metric"]][-1]


def score_torch(train: Rows, valid: Rows, options: SimpleNamespace) -> float:
    """Return the score of a PyTorch MLP after the last epoch."""
    import torch
    from torch.nn import functional

    torch.manual_seed(options.seed)
    config = options.config
    (x, y), (held_x, held_y) = (
        [torch.from_numpy(each) for each in rows] for rows in (train, valid)
    )
    model = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, config.get("classes", 1)),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learningRate"], weight_decay=0.0)
    for _ in range(options.epochs):
        for index in torch.split(torch.randperm(len(y)), config["batchSize"]):
            outputs = model(x[index])
            if "classes" in config:
                loss = functional.cross_entropy(outputs, y[index])
            else:
                loss = functional.mse_loss(outputs.squeeze(1), y[index])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # untyped in PyTorch
            optimizer.step()
    with torch.no_grad():
        outputs = model(held_x)
    if "classes" in config:
        return float((outputs.argmax(dim=1) != held_y).float().mean())
    return float(functional.mse_loss(outputs.squeeze(1), held_y).sqrt())


def score_keras(train: Rows, valid: Rows, options: SimpleNamespace) -> float:
    """Return the score of a Keras MLP after the last epoch."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # as in Ray
    import tensorflow as tf

    tf.keras.utils.set_random_seed(options.seed)
    config = options.config
    relu = {"activation": "relu"}
    layers = [tf.keras.layers.Dense(64, **relu), tf.keras.layers.Dense(64, **relu)]
    model = tf.keras.Sequential([*layers, tf.keras.layers.Dense(config.get("classes", 1))])
    optimizer = tf.keras.optimizers.AdamW(config["learningRate"], 0.0)
    if "classes" in config:
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, metrics=["accuracy"])
    else:
        model.compile(optimizer, "mse")
    model.fit(*train, batch_size=config["batchSize"], epochs=options.epochs, verbose=0)
    metrics = model.evaluate(*valid, verbose=0, return_dict=True)
    return float(1 - metrics["accuracy"] if "classes" in config else metrics["loss"] ** 0.5)
