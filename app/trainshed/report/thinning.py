"""Make long curves short without changing what they tell. Pure."""

from collections.abc import Sequence

Point = tuple[float, float]
MAX_POINTS = 2_000


def thin_points(points: Sequence[Point], limit: int = MAX_POINTS) -> tuple[Point, ...]:
    """At most `limit` points that keep the first, the last and, per stretch, the extremes."""
    if len(points) <= limit:
        return tuple(points)
    inner = points[1:-1]
    num_stretches = max((limit - 2) // 2, 1)
    kept = [points[0]]
    for index in range(num_stretches):
        first = index * len(inner) // num_stretches
        stretch = inner[first : (index + 1) * len(inner) // num_stretches]
        extremes = {min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}
        kept.extend(sorted(extremes))
    return (*kept, points[-1])


def smooth_points(points: Sequence[Point], width: int) -> tuple[Point, ...]:
    """The mean over `width` points around each point; fewer at both ends."""
    sums = [0.0]
    for _, y in points:
        sums.append(sums[-1] + y)
    half = width // 2
    smoothed = []
    for index, (x, _) in enumerate(points):
        radius = min(half, index, len(points) - 1 - index)
        total = sums[index + radius + 1] - sums[index - radius]
        smoothed.append((x, total / (2 * radius + 1)))
    return tuple(smoothed)
