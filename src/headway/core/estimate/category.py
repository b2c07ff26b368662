"""The three stages of a replica's learning, and two ways of moving between them."""

from enum import StrEnum


class Category(StrEnum):
    GROWING = "growing"
    WATCHED = "watched"
    CONVERGED = "converged"


WEIGHTS = {Category.GROWING: 2.0, Category.WATCHED: 1.5, Category.CONVERGED: 1.0}
"""How much a replica weighs on its node in SpeCon's scores (thesis 6.2.1)."""
_SLOWER = {
    Category.GROWING: Category.WATCHED,
    Category.WATCHED: Category.CONVERGED,
    Category.CONVERGED: Category.CONVERGED,
}


def by_efficiency(now: Category, efficiency: float, threshold: float) -> Category:
    """Algorithm 1, lines 4 to 13: slow once is watched, slow twice is believed; whoever
    reaches the threshold starts over (converged and slow stays converged).
    """
    return Category.GROWING if efficiency >= threshold else _SLOWER[now]


def by_growth(now: Category, growth: float, threshold: float, *, shrinking: bool) -> Category:
    """SpeCon's Algorithm 3: below the threshold only a growth that still shrinks counts as slow;
    one that does not is jitter, and changes nothing. (Lines 17 and 19 leave out equality.)
    """
    if growth >= threshold:
        return Category.GROWING
    return _SLOWER[now] if shrinking else now
