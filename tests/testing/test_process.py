import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kcoord.testing.errors import TimedOutError
from kcoord.testing.process import CapturedProcess

ECHO = "import sys\nfor line in sys.stdin: print('got', line, end='', flush=True)"
DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(60)"
FAILING = "import sys; print('half done'); sys.exit('out of luck')"
PARENT = """
import sys, time
from kcoord.testing.process import CapturedProcess
child = CapturedProcess([sys.executable, "-c", "import time; time.sleep(60)"], name="child")
print(child.pid, flush=True)
time.sleep(60)
"""


def python(source: str, **options: float) -> CapturedProcess:
    return CapturedProcess([sys.executable, "-c", source], name="python", **options)  # type: ignore[arg-type]


def test_a_process_can_be_talked_to() -> None:
    with python(ECHO) as echo:
        echo.send("one\n")
        assert echo.wait_for("one", timeout=60) == "got one"
        echo.close_input()
        assert echo.wait(60) == 0


def test_what_it_said_is_kept_after_it_was_stopped() -> None:
    with python(ECHO) as echo:
        echo.send("one\n")
        echo.wait_for("one", timeout=60)
    echo.stop()
    assert echo.stdout() == "got one\n"
    assert echo.exit_code == -signal.SIGTERM


def test_a_process_that_will_not_end_is_killed_after_its_grace() -> None:
    with python(DEAF, grace=0.1) as deaf:
        deaf.wait_for("deaf", timeout=60)
    assert deaf.exit_code == -signal.SIGKILL


def test_waiting_for_words_that_never_come_shows_the_last_ones() -> None:
    with (
        python(FAILING) as failing,
        pytest.raises(TimedOutError, match=r"(?s)exit code 1 without 'done!'.*out of luck"),
    ):
        failing.wait_for("done!", timeout=60)


def test_a_process_that_takes_too_long_is_named() -> None:
    with python(DEAF, grace=0.1) as deaf, pytest.raises(TimedOutError, match=r"python has not ended within 0\.1 s"):
        deaf.wait(0.1)


def test_a_thread_that_ends_does_not_take_its_processes_along() -> None:
    started: list[CapturedProcess] = []
    thread = threading.Thread(target=lambda: started.append(python(ECHO)))
    thread.start()
    thread.join()
    with started[0] as echo:
        echo.send("still here\n")
        assert echo.wait_for("still", timeout=60) == "got still here"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_killed_parent_takes_its_processes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    wait_until_gone(child)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)
