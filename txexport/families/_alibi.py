"""ALiBi slopes, as families compute them."""

import numpy as np

from txexport.families._elementary import power


def geometric(heads: int, *, rounded: bool = True) -> tuple[float, ...]:
    """2^(-8/n), 2^(-16/n), ... for n heads; where n is no power of 2, slopes of 2n heads fill in.

    As in Press et al. (2022, 3) and their code. `rounded` computes powers of the first slope in float32.
    """
    power_of_2 = 2 ** (heads.bit_length() - 1)
    slopes = _powers(8 / power_of_2, range(1, power_of_2 + 1), rounded)
    if power_of_2 != heads:
        slopes += _powers(4 / power_of_2, range(1, 2 * (heads - power_of_2) + 1, 2), rounded)
    return tuple(slopes)


def _powers(step: float, numbers: range, rounded: bool) -> list[float]:
    base = power(2, -step)
    base = float(np.float32(base)) if rounded else base
    return [power(base, number) for number in numbers]


def halving(heads: int, longest: float) -> tuple[float, ...]:
    """2^(-m/n), 2^(-2m/n), ... for n heads, m = `longest`.

    Where n is no power of 2, selected as MPT's code does.
    """
    power_of_2 = 2 ** (heads - 1).bit_length()
    slopes = [power(2, -longest * (i + 1) / power_of_2) for i in range(power_of_2)]
    return tuple(slopes if power_of_2 == heads else [*slopes[1::2], *slopes[::2]][:heads])
