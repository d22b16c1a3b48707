"""Signals ask for the end, a second one insists, and afterwards they are what they were."""

from __future__ import annotations

import signal
import threading

from seriatim.runtime.stop_signal import Stop


def test_the_first_signal_asks_and_the_second_insists():
    before = signal.getsignal(signal.SIGTERM)
    stop = Stop()
    with stop.listening(), stop.listening():
        assert not stop.requested
        signal.raise_signal(signal.SIGTERM)
        assert (stop.requested, stop.at_once) == (True, False)
        stop.wait(120)
        signal.raise_signal(signal.SIGINT)
        assert stop.at_once
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_thread_has_no_signals_but_may_be_asked():
    stop = Stop()
    entered = []

    def work():
        with stop.listening():
            entered.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert entered == [signal.getsignal(signal.SIGTERM)]
    stop.request()
    assert stop.requested
