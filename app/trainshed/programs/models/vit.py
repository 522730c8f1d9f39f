"""A vision transformer whose patch and width fit 8x8 digits as well as 32x32 pictures."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from trainshed.programs.options import ImageOptions, fault


class VitOptions(ImageOptions):
    """Options of `model: vit`."""

    model: Literal["vit"] = Field(default="vit", description="A vision transformer.")
    patch: int = Field(
        default=4, ge=1, description="Height and width of a patch in pixels; divides imageSize."
    )
    width: int = Field(default=64, ge=1, description="Embedding dimension; a multiple of heads.")
    depth: int = Field(default=4, ge=1, description="Number of transformer blocks.")
    heads: int = Field(default=4, ge=1, description="Attention heads in each block.")
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Dropout probability in each block; 0 to below 1."
    )


def build(options: VitOptions) -> "Vit":
    """Return the transformer: pictures (B, C, H, W) to logits (B, K).

    Raises:
        SpecError: when the patch does not divide the picture or the heads the width.
    """
    if options.image_size % options.patch:
        raise fault(
            "patch",
            options.patch,
            f"a divisor of spec.config.imageSize {options.image_size}: "
            f"{_divisors(options.image_size)}",
        )
    if options.width % options.heads:
        raise fault(
            "heads",
            options.heads,
            f"a divisor of spec.config.width {options.width}: {_divisors(options.width)}",
        )
    return Vit(options)


class Vit(nn.Module):
    """Patches to tokens, blocks of attention, the mean token to logits."""

    def __init__(self, options: VitOptions) -> None:
        super().__init__()
        num_tokens = (options.image_size // options.patch) ** 2
        self.embed = nn.Conv2d(
            options.channels, options.width, kernel_size=options.patch, stride=options.patch
        )
        self.position_TD = nn.Parameter(torch.randn(num_tokens, options.width) * 0.02)
        self.blocks = nn.Sequential(*(TransformerBlock(options) for _ in range(options.depth)))
        self.norm = nn.LayerNorm(options.width)
        self.head = nn.Linear(options.width, options.classes)

    def forward(self, images_BCHW: Tensor) -> Tensor:
        """Return logits (B, K)."""
        tokens_BTD = self.embed(images_BCHW).flatten(2).transpose(1, 2)
        tokens_BTD = self.blocks(tokens_BTD + self.position_TD)
        logits: Tensor = self.head(self.norm(tokens_BTD).mean(dim=1))
        return logits


class TransformerBlock(nn.Module):
    """Attention, then feed-forward; each reads normed tokens and adds to the stream."""

    def __init__(self, options: VitOptions) -> None:
        super().__init__()
        width = options.width
        self.heads = options.heads
        self.norm_attention = nn.LayerNorm(width)
        self.to_qkv = nn.Linear(width, 3 * width)
        self.from_heads = nn.Linear(width, width)
        self.dropout = nn.Dropout(options.dropout)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(options.dropout),
        )

    def forward(self, tokens_BTD: Tensor) -> Tensor:
        """Return the tokens (B, T, D) after this block."""
        tokens_BTD = tokens_BTD + self.dropout(self._attend(self.norm_attention(tokens_BTD)))
        result_BTD: Tensor = tokens_BTD + self.feed_forward(tokens_BTD)
        return result_BTD

    def _attend(self, tokens_BTD: Tensor) -> Tensor:
        batch, num_tokens, width = tokens_BTD.shape
        qkv = self.to_qkv(tokens_BTD).view(batch, num_tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, N, T, D / N)
        mixed = F.scaled_dot_product_attention(q, k, v)
        mixed_BTD: Tensor = self.from_heads(mixed.transpose(1, 2).flatten(2))
        return mixed_BTD


def _divisors(number: int) -> str:
    return ", ".join(str(part) for part in range(1, number + 1) if number % part == 0)
