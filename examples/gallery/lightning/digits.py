"""A module of Lightning learns to read digits, on rows that Ray Data prepares."""

from contextlib import nullcontext

import lightning.pytorch as pl
import ray.train
import torch
from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, prepare_trainer
from torch import Tensor, nn
from trainshed.lightning import LightningReportCallback

Batch = dict[str, Tensor]


class Digits(pl.LightningModule):
    """Two layers on pictures of 8 x 8 pixels."""

    def __init__(self, learning_rate: float) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """Return the loss of a batch."""
        loss = nn.functional.cross_entropy(
            self.layers(batch["image"].float() / 255), batch["label"]
        )
        self.log("loss", loss, on_step=False, on_epoch=True, batch_size=len(batch["label"]))
        return loss

    def validation_step(self, batch: Batch, _: int) -> None:
        """Record the accuracy of a batch; Lightning averages it over batches and workers."""
        is_right = self.layers(batch["image"].float() / 255).argmax(dim=1) == batch["label"]
        rows = len(batch["label"])
        self.log("valid.accuracy", is_right.float().mean(), batch_size=rows, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate)


def train(config: dict[str, float]) -> None:
    """Train on the dataset `train`, and evaluate on `valid` after each epoch."""
    trainer = prepare_trainer(
        pl.Trainer(
            max_epochs=int(config["epochs"]),
            accelerator="auto",
            devices="auto",
            strategy=RayDDPStrategy(),
            plugins=[RayLightningEnvironment()],
            callbacks=[LightningReportCallback()],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
        )
    )
    rows = [
        ray.train.get_dataset_shard(name).iter_torch_batches(batch_size=32)
        for name in ("train", "valid")
    ]
    checkpoint = ray.train.get_checkpoint()
    with checkpoint.as_directory() if checkpoint else nullcontext() as folder:
        saved = f"{folder}/{LightningReportCallback.CHECKPOINT_NAME}" if folder else None
        trainer.fit(Digits(config["learningRate"]), *rows, ckpt_path=saved)
