"""What the loops over tensors in memory are told."""

import argparse


def loop_options() -> argparse.Namespace:
    """Return where rows and times lie, and the sizes of the network and its training."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--hidden", type=int, nargs="+", required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    return parser.parse_args()
