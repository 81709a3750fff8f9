"""State shared by a process: random states, and modes of PyTorch and NumPy, which verification preserves."""

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def undisturbed(function: F) -> F:
    """Decorate a function to run in the default state of PyTorch and NumPy, and to restore the caller's."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with process_state():
            return function(*arguments, **named)

    return call  # type: ignore[return-value]


@contextmanager
def process_state() -> Iterator[None]:
    """Run with float32 by default, on the CPU, without autocast or errors for rounding.

    Afterwards the random states of Python, NumPy and PyTorch, the default dtype and device, gradient
    recording and the number of threads are restored.
    """
    python, numpy = random.getstate(), np.random.get_state()
    with ExitStack() as stack:
        stack.callback(random.setstate, python)
        stack.callback(np.random.set_state, numpy)
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        stack.enter_context(_torch_state())
        yield


@contextmanager
def _torch_state() -> Iterator[None]:
    """The same for PyTorch, if it is installed."""
    try:
        import torch
    except ImportError:  # callers that need it raise
        yield
        return
    dtype, threads, states = torch.get_default_dtype(), torch.get_num_threads(), torch.random.get_rng_state()
    precision = torch.get_float32_matmul_precision()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision("highest")
        with ExitStack() as modes:
            if torch.get_default_device().type != "cpu":
                modes.enter_context(torch.device("cpu"))
            modes.enter_context(torch.autocast("cpu", enabled=False))
            modes.enter_context(torch.set_grad_enabled(True))
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(precision)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.random.set_rng_state(states)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
