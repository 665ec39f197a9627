"""A folder watched with a canary in each folder of it, and a text that leaves what it can wherever it can write."""

import hashlib
import stat
from pathlib import Path

Seen = dict[str, tuple[int, int, int, str]]


class WatchedTree:
    """One file in `root` and in each folder below it, and what `root` was like when they were put there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in (root, *(path for path in sorted(root.rglob("*")) if path.is_dir())):
            (folder / "canary").write_text(f"of {folder.name}")
        self._before = self._seen()

    def moved(self, *, besides: str) -> list[str]:
        """Files and folders that are new, gone or not as before; below `besides` only what was there counts."""
        after = self._seen()
        new = [name for name in after if name not in self._before and not name.startswith(f"{besides}/")]
        return sorted(new + [name for name, seen in self._before.items() if after.get(name) != seen])

    def _seen(self) -> Seen:
        """Kind and rights, inode, number of names, and content."""
        return {str(path.relative_to(self.root)): _seen(path) for path in sorted(self.root.rglob("*"))}


def _seen(path: Path) -> tuple[int, int, int, str]:
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        return info.st_mode, info.st_ino, info.st_nlink, str(path.readlink())
    if stat.S_ISDIR(info.st_mode):
        return info.st_mode, info.st_ino, 0, ""
    content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(info.st_mode) else ""
    return info.st_mode, info.st_ino, info.st_nlink, content


# What the top level of a module leaves wherever it can write, each by itself so that one failure stops nothing.
LEAVES = f"""
import contextlib, json, os, socket, stat
HOST = {str(Path(__file__).parent)!r}
NAMES = ("kbench_submission.model", "kbench_submission.so", "requests.json", "extension0", "extension1", "module.py",
         "extensions.json", "given", "build.json", "work", "a.o", "steps.sh", "module_id", "log",
         "kbench_submission.cpp")

def link(path): os.symlink("/etc/passwd", path)
def link_to_folder(path): os.symlink("/etc", path)
def dangling(path): os.symlink("../../../nowhere", path)
def folder(path): os.makedirs(path + "/kbench_submission.so")
def pipe(path): os.mkfifo(path)
def second_name(path): os.link("/proc/self/exe", path)
def sparse(path): open(path, "wb").truncate(1 << 27)
def bound(path):
    with socket.socket(socket.AF_UNIX) as end: end.bind(path)
def over(path): open(path, "r+b").write(b"overwritten")
def gone(path): os.rename(path, path + ".moved")
def locked(path): os.chmod(path, 0)

PLACES = {{os.getcwd(), "/kbench/work", "/kbench/given", "/kbench", "/tmp", "/dev/shm", "/", "/usr", HOST,
          os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
          "/proc/self/root", "/proc/1/root", "/proc/self/cwd"}}

def leave_everywhere(ways):
    for place in PLACES:
        for name in NAMES:
            for way in ways:
                with contextlib.suppress(Exception):
                    way(os.path.join(place, name))

leave_everywhere([over, locked, gone])
leave_everywhere([link, link_to_folder, dangling, folder, pipe, second_name, bound, sparse])
for fd in range(1, 64):
    with contextlib.suppress(Exception):
        os.fchmod(fd, 0o4777 if fd % 2 else 0)
    with contextlib.suppress(Exception):
        os.write(fd, b"written into every descriptor " * 100)
"""
