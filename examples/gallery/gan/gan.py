"""Two networks against each other: one draws digits, the other tells drawn ones from real ones."""

import torch
import trainshed
from ray.train.torch import prepare_model
from torch import Tensor, nn
from torch.nn import functional as F

NOISE = 16


def train(config: dict[str, float]) -> None:
    """Train both networks; the report shows eight drawn digits."""
    generator = prepare_model(
        nn.Sequential(nn.Linear(NOISE, 128), nn.ReLU(), nn.Linear(128, 64), nn.Sigmoid())
    )
    critic = prepare_model(nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1)))
    draws, judges = (
        torch.optim.Adam(model.parameters(), lr=config["learningRate"], betas=(0.5, 0.999))
        for model in (generator, critic)
    )
    run = trainshed.current()
    run.track(generator=(generator, draws), critic=(critic, judges))
    for epoch in run.epochs():
        for batch in run.batches("train"):
            real = batch["image"].float().flatten(1) / 255
            drawn = generator(torch.randn(len(real), NOISE, device=run.device))
            judged = both(critic(real), critic(drawn.detach()))
            run.backward_step(judged, optimizer=judges)
            fooled = F.softplus(-critic(drawn)).mean()
            run.backward_step(fooled, optimizer=draws)
            run.log(critic_loss=judged, generator_loss=fooled, brightness=drawn.mean())
        pictures = (255 * drawn[:8].detach()).byte().reshape(-1, 8, 8).cpu().numpy()
        run.show("drawn digits", pictures, [f"epoch {epoch + 1}"] * len(pictures))


def both(real: Tensor, drawn: Tensor) -> Tensor:
    """Return the loss of the critic: real pictures should be above 0, drawn ones below."""
    return F.softplus(-real).mean() + F.softplus(drawn).mean()
