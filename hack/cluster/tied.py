"""Becomes another program that ends when the process that started it ends (Linux).

python tied.py PARENT COMMAND...: a separate program, because a child may do this only between
its birth and its new program, where Python with threads is no safe place.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):  # it was gone before the wish was in place
        sys.exit(1)
    os.execv(sys.argv[2], sys.argv[2:])
