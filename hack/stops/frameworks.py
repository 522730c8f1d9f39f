"""Training functions of frameworks that are not among the requirements; they stop after a step."""

import tempfile
from collections.abc import Iterator

import ray.train
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import trainshed
from hack.stops.draw import EPOCHS
from hack.stops.marks import begin_batches, count_step, hold, keep_weights
from hack.stops.programs import WIDTH, Rows, error, learn, open_checkpoint

BATCH = 6  # of each worker


def by_accelerate(config: dict[str, int]) -> None:
    """Train a loop of Accelerate's."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    # Otherwise the order of an epoch depends on the epochs before, and on the worker.
    seeded = DataLoaderConfiguration(use_seedable_sampler=True, data_seed=0)
    accelerator = Accelerator(cpu=True, dataloader_config=seeded)
    loader = accelerator.prepare(DataLoader(Rows(config["rows"]), batch_size=BATCH, shuffle=True))

    def batches(epoch: int) -> Iterator[dict[str, Tensor]]:
        loader.set_epoch(epoch)
        yield from loader

    learn(
        batches,
        prepare=accelerator.prepare,
        backward=accelerator.backward,
        wants_stop=trainshed.current().wants_stop,
    )


def by_lightning(config: dict[str, int]) -> None:
    """Train Lightning's Trainer, which saves and loads its own checkpoints."""
    import lightning.pytorch as pl
    from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, prepare_trainer

    from trainshed.lightning import LightningReportCallback, ResumableLoader

    class Module(pl.LightningModule):  # type: ignore[misc]  # it is not installed
        def __init__(self) -> None:
            super().__init__()
            self.network = nn.Linear(WIDTH, 1)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=0.01)

        def on_train_start(self) -> None:
            begin_batches()

        def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
            return error(self.network, batch)

        def on_train_batch_end(self, _: object, batch: dict[str, Tensor], __: int) -> None:
            rows = {"train": batch["row"].tolist()}
            count_step(self.global_rank, self.current_epoch, self.global_step, rows)

        def on_train_epoch_end(self) -> None:
            hold("epoch-end", epoch=self.current_epoch)

        def on_save_checkpoint(self, _: object) -> None:
            hold("checkpoint", epoch=self.current_epoch)

    torch.manual_seed(0)
    module = Module()
    trainer = prepare_trainer(
        pl.Trainer(
            max_epochs=EPOCHS,
            accelerator="cpu",
            strategy=RayDDPStrategy(),  # type: ignore[no-untyped-call]
            plugins=[RayLightningEnvironment()],  # type: ignore[no-untyped-call]
            callbacks=[LightningReportCallback()],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
    )
    loader = ResumableLoader(Rows(config["rows"]), batch_size=BATCH, shuffle=True)
    with open_checkpoint() as folder:
        saved = folder and folder / LightningReportCallback.CHECKPOINT_NAME
        trainer.fit(module, loader, ckpt_path=saved)
    if trainer.is_global_zero:
        keep_weights(module.network.state_dict(), None)


def by_transformers(config: dict[str, int]) -> None:
    """Train Hugging Face's Trainer, which saves and loads its own checkpoints."""
    from ray.train.huggingface.transformers import prepare_trainer
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from trainshed.huggingface import TransformersReportCallback

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = nn.Linear(WIDTH, 1)
            self.rows: list[int] = []

        def forward(self, x: Tensor, y: Tensor, row: Tensor) -> dict[str, Tensor]:
            self.rows = row.tolist()
            return {"loss": error(self.network, {"x": x, "y": y})}

    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(0)
    module = Module()

    class Observer(TrainerCallback):  # type: ignore[misc]  # it is not installed
        def on_train_begin(self, *_: object, **__: object) -> None:
            begin_batches()

        def on_step_end(self, _: object, state: object, *__: object, **___: object) -> None:
            step = int(vars(state)["global_step"])
            epoch = (step - 1) * BATCH * 2 // config["rows"]
            count_step(rank, epoch, step, {"train": module.rows})

        def on_epoch_end(self, _: object, state: object, *__: object, **___: object) -> None:
            hold("epoch-end", epoch=round(vars(state)["epoch"]) - 1)

    with tempfile.TemporaryDirectory() as own:
        arguments = TrainingArguments(
            own,
            per_device_train_batch_size=BATCH,
            num_train_epochs=EPOCHS,
            save_strategy="epoch",
            logging_strategy="epoch",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        callbacks = [Observer(), TransformersReportCallback()]  # type: ignore[no-untyped-call]
        rows = Rows(config["rows"])
        trainer = prepare_trainer(
            Trainer(module, arguments, train_dataset=rows, callbacks=callbacks)
        )
        with open_checkpoint() as folder:
            saved = folder and str(folder / TransformersReportCallback.CHECKPOINT_NAME)
            trainer.train(resume_from_checkpoint=saved)
    if rank == 0:
        keep_weights(module.network.state_dict(), None)
