# SPDX-License-Identifier: GPL-3.0-or-later
"""One rule for bursts on all radios: which rounds count, which are played again, and when a burst is given up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.rounds.delivery import PARTIAL_ROUNDS, Delivery, DeliveryRules

ALL = (0, 1, 2)
K = 40

# what the row shows, the clients that take part, min_clients, the rounds (heard, entries, able), the verdict on each
TABLE = [
    ("all are heard", ALL, 1, [(ALL, K, ALL)], ["accept"]),
    ("one of them was not able", ALL, 1, [((0, 2), K, (0, 2))], ["accept"]),
    ("one that is able is missing once", ALL, 1, [((0, 2), K, ALL), (ALL, K, ALL)], ["play again", "accept"]),
    ("one that is able got lost", ALL, 1, [((0, 2), K, ALL), ((0, 2), K, (0, 2))], ["play again", "accept"]),
    ("one that is able is never heard", ALL, 1, [((0, 2), K, ALL)] * 4, ["play again"] * PARTIAL_ROUNDS + ["accept"]),
    ("too few are heard", ALL, 2, [((0,), K, (0,))] * 9, ["play again"] * 9),
    ("nobody is heard", ALL, 1, [((), K, ()), ((), 0, ALL)], ["play again"] * 2),
    ("fewer take part than are needed", (0, 2), 3, [((0, 2), K, ALL)], ["accept"]),
    ("only bystanders are heard", (0,), 1, [((1, 2), K, ALL)], ["play again"]),
    ("bystanders are not waited for", (0,), 1, [((0,), K, ALL)], ["accept"]),
    ("the round was of another length", ALL, 1, [(ALL, K - 1, ALL), (ALL, K, ALL)], ["play again", "accept"]),
    (
        "rounds with too few do not use up those that may lack somebody",
        ALL,
        2,
        [*[((0,), K, ALL)] * 5, ((0, 1), K, ALL), (ALL, K, ALL)],
        [*["play again"] * 6, "accept"],
    ),
]


@pytest.mark.parametrize(("shows", "clients", "least", "rounds", "verdicts"), TABLE, ids=[row[0] for row in TABLE])
def test_table(shows, clients, least, rounds, verdicts):
    delivery = Delivery(clients, K, DeliveryRules(least))
    assert [delivery.judge(*one).verdict for one in rounds] == verdicts, shows


def test_gives_up_after_its_rounds_with_a_sentence():
    delivery = Delivery(ALL, K, DeliveryRules(most_rounds=3))
    judged = [delivery.judge((), 0, ALL) for _ in range(3)]
    assert [verdict for verdict, _ in judged] == ["play again", "play again", "give up"]
    assert judged[-1].reason == "no votes came through in 3 rounds of the radios"
    delivery = Delivery(ALL, K, DeliveryRules(3, most_rounds=1))
    assert delivery.judge((0, 1), K, ALL) == (
        "give up",
        "the votes of at most 2 clients came through in 1 rounds of the radios, and min_clients is 3",
    )


def test_gives_up_after_its_seconds_with_a_sentence():
    delivery = Delivery(ALL, K, DeliveryRules(2, most_seconds=30.0))
    assert delivery.wait(30.0).verdict == "play again"
    assert delivery.judge((0,), K, ALL, seconds=29.0).verdict == "play again"
    assert delivery.wait(31.0) == (
        "give up",
        "the votes of at most 1 clients came through in 31 s, and min_clients is 2",
    )
    assert delivery.judge(ALL, K, ALL, seconds=31.0).verdict == "accept"  # late, and good


@given(
    st.sets(st.integers(0, 5), min_size=1),
    st.integers(1, 6),
    st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sampled_from([0, K]), st.sets(st.integers(0, 5))), min_size=30),
)
def test_what_counts_has_enough_clients_and_partial_rounds_are_few(clients, least, rounds):
    delivery, again = Delivery(clients, K, DeliveryRules(least, most_rounds=30)), 0
    for number, (heard, entries, able) in enumerate(rounds):
        verdict = delivery.judge(heard, entries, able).verdict
        enough = entries == K and len(heard & clients) >= min(least, len(clients)) and bool(heard & clients)
        if verdict == "accept":
            assert enough
            assert able & clients <= heard or again == PARTIAL_ROUNDS
            return
        again += enough
        assert again <= PARTIAL_ROUNDS
        if verdict == "give up":
            assert number >= 29
            return
    raise AssertionError("neither accepted nor given up")


@pytest.mark.parametrize("wrong", [{"min_clients": 0}, {"partial_rounds": -1}, {"most_seconds": -1.0}])
def test_wrong_rules_are_named(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        DeliveryRules(**wrong)
