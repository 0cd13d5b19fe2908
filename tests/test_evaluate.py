"""Agreement of two kept sets."""

from hashnms.evaluate import Agreement, agreement


def test_agreement_counts_common_boxes_in_any_order():
    assert agreement([5, 1, 2, 0], [2, 1]) == Agreement(precision=0.5, recall=1.0)
    assert agreement([3], [1, 2]) == Agreement(precision=0.0, recall=0.0)


def test_of_an_empty_set_all_is_in_the_other():
    assert agreement([], []) == Agreement(precision=1.0, recall=1.0)
    assert agreement([], [1]) == Agreement(precision=1.0, recall=0.0)
