"""Reads the rows into memory with pyarrow."""

import pyarrow.parquet
import torch


def read_rows(folder: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features (rows, features) float32 and labels (rows,) int64."""
    table = pyarrow.parquet.read_table(folder, columns=["x", "y"]).combine_chunks()
    labels = torch.from_numpy(table["y"].to_numpy())
    flat = table["x"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return torch.from_numpy(flat.copy()).reshape(len(labels), -1), labels.clone()
