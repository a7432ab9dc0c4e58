"""tfe.artifact(): adds files to what `tfe-agent --artifacts` stores."""
from __future__ import annotations

import os
import shutil
from typing import Optional, Union


def artifact(path: Union[str, "os.PathLike[str]"], name: Optional[str] = None) -> None:
    """Adds a file or folder to the artifacts of this job, in place of an earlier one of this name.

    The agent stores them when this script has succeeded (tfe-agent --artifacts). They are hard links if possible, so
    the file must not be changed in place until then. name: relative path among the artifacts; default: the last part
    of path. Has no effect in processes other than that of rank 0, and without --artifacts. Raises ValueError for a
    name that is not below the artifacts, and OSError if the copy fails.
    """
    source = os.path.normpath(os.fspath(path))
    name = os.path.normpath(os.path.basename(source) if name is None else name)
    if os.path.isabs(name) or name.split(os.sep)[0] in (os.pardir, os.curdir):
        raise ValueError(f"name is {name!r}; it must be a path below the artifacts")
    if "TFE_ARTIFACTS_URI" not in os.environ:
        return
    target = os.path.join(os.environ["TFE_ARTIFACTS"], name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(target) and not os.path.islink(target):
        shutil.rmtree(target)
    elif os.path.lexists(target):
        os.unlink(target)
    if os.path.isdir(source):
        shutil.copytree(source, target, copy_function=_link)
    else:
        _link(source, target)


def _link(source: str, target: str) -> None:
    """Makes a hard link, or a copy: on another file system, and of another user's file, a link fails."""
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copy2(source, target)
