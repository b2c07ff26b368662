"""The three stages of training, and two rules for transitions between them."""

from enum import StrEnum


class Category(StrEnum):
    GROWING = "growing"
    WATCHED = "watched"
    CONVERGED = "converged"


WEIGHTS = {Category.GROWING: 2.0, Category.WATCHED: 1.5, Category.CONVERGED: 1.0}
"""Weight of a replica in SpeCon's score of its node (thesis 6.2.1)."""
_SLOWER = {
    Category.GROWING: Category.WATCHED,
    Category.WATCHED: Category.CONVERGED,
    Category.CONVERGED: Category.CONVERGED,
}


def by_efficiency(now: Category, efficiency: float, threshold: float) -> Category:
    """Algorithm 1, lines 4 to 13: a replica below the threshold once is watched, twice converged.
    At or above the threshold it is growing.
    """
    return Category.GROWING if efficiency >= threshold else _SLOWER[now]


def by_growth(now: Category, growth: float, threshold: float, *, shrinking: bool) -> Category:
    """SpeCon's Algorithm 3: below the threshold, only a growth that still shrinks counts as slow.
    Any other growth is jitter and changes nothing. (Lines 17 and 19 do not define equality.)
    """
    if growth >= threshold:
        return Category.GROWING
    return _SLOWER[now] if shrinking else now
