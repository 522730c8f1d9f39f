"""The optimizer and the learning rate's schedule of the built-in programs."""

from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LinearLR

from trainshed.programs.options import ProgramOptions


def build_optimizer(model: nn.Module, options: ProgramOptions) -> tuple[AdamW, LinearLR]:
    """Return AdamW on all parameters and a scheduler that is stepped once a batch."""
    optimizer = AdamW(
        model.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
    )
    # One step of warm-up starts at the full rate, which is what no warm-up means.
    steps = max(1, options.warmup_steps)
    return optimizer, LinearLR(optimizer, start_factor=1 / steps, total_iters=steps)
