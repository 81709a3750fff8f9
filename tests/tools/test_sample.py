"""A short run that left out a test, or a family's only proof, would call a broken change green."""

from types import SimpleNamespace

from helpers.sampled import sample, spread


class Case(SimpleNamespace):
    """A collected test; equal to itself alone."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def get_closest_marker(self, name):
        return name in self.marks


def case(name: str, marks=(), **parameters) -> Case:
    return Case(
        path="a.py", cls=None, originalname=name, marks=marks, callspec=SimpleNamespace(params=parameters)
    )


def test_cases_are_the_root_of_their_number_and_spread():
    assert spread(range(1)) == [0]
    assert spread(range(3)) == [0]
    assert spread(range(9)) == [0, 3, 6]
    assert len(spread(range(655))) == 25


def test_a_sample_has_every_test_and_every_family():
    single = case("alone")
    numbers = [case("numbers", number=number) for number in range(9)]
    families = [case("rows", ["each_family"], family=name) for name in ("bert", "bert", "gpt2", "t5", "t5")]
    rows = [
        case("graphs", ["each_family"], row=SimpleNamespace(model_type=name))
        for name in ("vit", "vit", "clip", "clip")
    ]
    chosen = sample([single, *numbers, *families, *rows])
    assert chosen == {single, *numbers[::3], *(families[place] for place in (0, 2, 3)), *rows[::2]}
