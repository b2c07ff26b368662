"""The three stages of a replica's learning, and FlowCon's way of moving between them."""

from enum import StrEnum


class Category(StrEnum):
    GROWING = "growing"
    WATCHED = "watched"
    CONVERGED = "converged"


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
