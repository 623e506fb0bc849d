"""What the killers share: work in a child process that is killed at some moment, and what it leaves behind.

Worker processes import the main module again, so a killer imports nothing slow at its top: its workers then start like
those of the `reaper` command.
"""

import os
import signal
import time
import uuid
from pathlib import Path

MARK = "REAPER_TEST_MARK"  # an environment variable that every process inherits, however deep


def kill_when(due, work):
    """Calls `work` in a fork of this process and kills that with SIGKILL as soon as `due()`. Returns False if the work
    was finished before. A fork has imported everything, so that an attempt costs only its work."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    while not due():
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0, f"the work failed: {status}"
            return False
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def mark_children():
    """Marks all programs that are started from now on, and returns the mark."""
    os.environ[MARK] = uuid.uuid4().hex
    return os.environ[MARK]


def marked(mark):
    """Process id -> command line of every living process that was started with this mark."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes() and alive(folder.name):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
        except OSError:
            pass  # it has just ended, or it is not ours
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def seconds_until_gone(mark, limit):
    """How long marked processes live on. Those that are left after `limit` seconds are killed, and raise an error."""
    start = time.monotonic()
    while left := marked(mark):
        if time.monotonic() - start > limit:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"left after {limit:g} s: {left}")
        time.sleep(0.01)
    return time.monotonic() - start


def running_stages(out):
    """Their digests: those whose lock is held. The file of a lock outlives a process that was killed."""
    held = {line.split()[5].rpartition(":")[2] for line in Path("/proc/locks").read_text().splitlines()}
    files = [path for path in out.glob("locks/*") if path.name != "run"]  # that one is held by the engine
    return {path.name for path in files if str(inode_of(path)) in held}


def inode_of(path):
    try:
        return path.stat().st_ino
    except OSError:
        return None  # it has just been removed


def artefacts(out):
    """Every file of the results, except the record of when and where they were made."""
    folders = ("stages", "runs", "experiments")
    found = [path for folder in folders for path in sorted((out / folder).rglob("*")) if path.is_file()]
    files = [path for path in [*found, out / "reaper.json"] if path.name != "provenance.json"]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}
