"""The operating system's user of this process."""

from __future__ import annotations

import os
import sys

if sys.platform != "win32":
    import pwd


def user_name() -> str:
    """Returns the name of the user who runs this process, as the operating system knows it.

    Variables such as `LOGNAME` and `USER`, which everybody may set, are not read. A user without a name, as in some containers,
    is `uid:` and the number.
    """
    if sys.platform == "win32":
        return os.getlogin()  # on Windows, this asks the system for the user of the process
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"
