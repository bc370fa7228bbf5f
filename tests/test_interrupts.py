"""Tests of Ctrl-C at chosen places."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys

import pytest

from relation_tf.system import check_interrupts, interrupts_delayed, interrupts_kept

pytestmark = pytest.mark.usefixtures("ctrl_c")


def press():
    signal.raise_signal(signal.SIGINT)


def test_it_is_raised_between_steps():
    done = []

    @interrupts_delayed()
    def steps():
        for step in range(3):
            check_interrupts()
            done.append(step)
            press()

    with pytest.raises(KeyboardInterrupt):
        steps()
    assert done == [0]


def test_it_replaces_an_error_that_it_caused():
    @interrupts_delayed()
    def step():
        press()
        raise TypeError("converted")

    with pytest.raises(KeyboardInterrupt):
        step()


def test_the_second_press_is_immediate():
    done = []

    @interrupts_delayed()
    def step():
        press()
        done.append("first")
        press()
        done.append("second")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["first"]


@pytest.mark.parametrize("pressed", ["outside", "inside"])
def test_an_inner_block_leaves_it_to_the_outer_one(pressed):
    done = []

    @interrupts_delayed()
    def outer():
        if pressed == "outside":
            press()
        with interrupts_delayed():
            if pressed == "inside":
                press()
            done.append("inner")
        done.append("between")
        check_interrupts()
        done.append("more")

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert done == ["inner", "between"]


@pytest.mark.parametrize("ends", ["returns", "delays", "exits"])
def test_a_press_that_is_dropped_is_kept(ends):
    done = []

    @interrupts_kept()
    def command():
        with contextlib.suppress(KeyboardInterrupt):
            press()
        done.append("the rest")
        if ends == "delays":
            with interrupts_delayed():
                done.append("a block")
        if ends == "exits":
            sys.exit(0)

    with pytest.raises(KeyboardInterrupt):
        command()
    assert done == ["the rest"]


def test_a_press_in_a_callback_of_the_garbage_collector_prints_nothing(monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: printed.append(error.exc_type))

    def callback(phase, info):
        if phase == "stop":
            press()

    @interrupts_kept()
    def command():
        gc.callbacks.append(callback)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(callback)

    with pytest.raises(KeyboardInterrupt):
        command()
    assert printed == []


def test_a_press_is_raised_once():
    @interrupts_kept()
    def command():
        with interrupts_delayed():
            press()

    with pytest.raises(KeyboardInterrupt):
        command()
    with interrupts_delayed():
        check_interrupts()


@pytest.mark.parametrize("action", [signal.default_int_handler, signal.SIG_IGN])
def test_sigterm_in_a_command_is_a_press(action):
    """Background jobs of scripts ignore Ctrl-C, but not SIGTERM."""
    signal.signal(signal.SIGINT, action)
    done = []

    @interrupts_kept()
    def command():
        with interrupts_delayed():
            signal.raise_signal(signal.SIGTERM)
            done.append("the rest")
        done.append("more")

    with pytest.raises(KeyboardInterrupt):
        command()
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is action


@pytest.mark.parametrize("action", [signal.SIG_IGN, signal.SIG_DFL])
def test_the_action_of_the_system_is_kept(action):
    """Background jobs ignore it."""
    signal.signal(signal.SIGINT, action)
    with interrupts_delayed():
        assert signal.getsignal(signal.SIGINT) == action
    assert signal.signal(signal.SIGINT, signal.default_int_handler) == action
