"""What of boosting must survive: the trees, and when to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xgboost

from trainshed.boosting.early_stopping import EarlyStoppingState
from trainshed.checkpoint.manifest import MODEL, TrackedObject
from trainshed.checkpoint.model_file import XGBOOST
from trainshed.checkpoint.store import STATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class BoosterState:
    """The booster of a run and its counters; the same on all ranks."""

    model_file = XGBOOST

    def __init__(self) -> None:
        self.booster: xgboost.Booster | None = None
        self._watch = EarlyStoppingState(None)
        self._counters: Mapping[str, object] = {}

    def begin(
        self,
        params: Mapping[str, object],
        matrices: Sequence[xgboost.DMatrix],
        watch: EarlyStoppingState,
    ) -> xgboost.Booster:
        """Return the booster that goes on: of the trees there are, or of none.

        Args:
            params: XGBoost's own.
            matrices: for which it keeps its predictions.
            watch: its counters go on.
        """
        going_on = xgboost.Booster(dict(params), list(matrices), self._raw())
        if self._counters:
            watch.load_state_dict(self._counters)
        self.booster, self._watch = going_on, watch
        return going_on

    def objects(self) -> dict[str, TrackedObject]:
        """Return the names of both."""
        return {
            MODEL: TrackedObject(kind="model", files=(XGBOOST.name,)),
            "early_stopping": TrackedObject(kind="other", files=(STATE,)),
        }

    def weights(self) -> dict[str, object]:
        """Return the model as XGBoost writes it; empty before the first round."""
        return {MODEL: bytes(self._raw() or b"")}

    def state(self) -> dict[str, object]:
        """Return the counters."""
        return {"early_stopping": self._watch.state_dict()}

    def _raw(self) -> bytearray | None:
        return self.booster.save_raw("ubj") if self.booster is not None else None

    def help_gather(self) -> None:
        """Do nothing: rank 0 has all there is."""

    def load(self, saved: Mapping[str, object]) -> None:
        """Load a checkpoint."""
        model, counters = saved[MODEL], saved["early_stopping"]
        assert isinstance(model, bytes)
        assert isinstance(counters, dict)
        self._counters = counters
        if model:
            self.booster = xgboost.Booster()
            self.booster.load_model(bytearray(model))
