#!/usr/bin/env python
"""Django's command line for kbench; `manage.py up` starts the whole site.

Does NOT cover judging a file without a server: that is the `kbench` command.
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbench_site.settings")
    execute_from_command_line(sys.argv)
