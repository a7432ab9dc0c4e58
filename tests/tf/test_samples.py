"""Which steps are in the result, as computed by the exactness tests, for synthetic logs."""
import exact
import pytest


class Told:
    def __init__(self, epochs):
        """epochs: for each the step from which it began, and its last step; a sample is seen once per pass."""
        self.lines = []
        for epoch, (first, last) in enumerate(epochs, 1):
            self.lines.append({"event": "restored", "epoch": epoch, "step": first})
            self.lines += [{"event": "share", "epoch": epoch, "step": step,
                            "ids": range((step - 1) * exact.BATCH, step * exact.BATCH)} for step in range(first + 1, last + 1)]

    def trainer_lines(self):
        return self.lines


@pytest.mark.parametrize("epochs", [[(0, 6)], [(0, 4), (2, 6)], [(0, 4), (4, 5), (2, 3), (3, 6)], [(0, 4), (4, 4), (0, 6)]])
def test_what_an_epoch_begins_from_says_which_steps_count(epochs):
    exact.check_samples(Told(epochs), 6)


def test_a_step_that_no_epoch_has_made_is_missed():
    with pytest.raises((AssertionError, KeyError)):
        exact.check_samples(Told([(0, 2), (3, 6)]), 6)


def test_a_sample_that_two_steps_saw_is_found():
    told = Told([(0, 4), (2, 6)])
    told.lines[-1]["ids"] = told.lines[-2]["ids"]
    with pytest.raises(AssertionError):
        exact.check_samples(told, 6)
