import os
import sys

from fixtures import *  # noqa: F403

# Modules borrow from each other, also across folders.
sys.path += sorted(f.path for f in os.scandir(os.path.dirname(os.path.abspath(__file__))) if f.is_dir())
