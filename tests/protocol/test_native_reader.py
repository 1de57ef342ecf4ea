"""The stub of asyncio is removed after kio is imported, and also if the import fails."""

import subprocess
import sys

import pytest

FAILING = """
import sys

class NoKio:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("kio"):
            raise ImportError("no kio")

sys.meta_path.insert(0, NoKio())
"""


@pytest.mark.parametrize("before", ["", FAILING], ids=["kio", "no kio"])
def test_asyncio_is_the_real_one_afterwards(before: str) -> None:
    program = f"""{before}
try:
    import kcoord.protocol.native_reader
except ImportError:
    pass
import asyncio
print(asyncio.run.__module__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("asyncio.runners\n", "")
