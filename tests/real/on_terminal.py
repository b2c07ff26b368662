"""Run a command on a terminal: print what it shows, and press keys once it has shown a text.

on_terminal.py TEXT KEYS COMMAND...
"""

import os
import pty
import sys


def main(text, keys, *command):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)  # noqa: S606
    seen, pressed = b"", False
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:  # it has ended
            break
        if not block:
            break
        seen += block
        if not pressed and text.encode() in seen:
            os.write(terminal, keys.encode())
            pressed = True
    sys.stdout.buffer.write(seen + b"\n")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
