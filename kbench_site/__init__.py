"""The site: settings, addresses, middleware, commands, and the processes of an installation.

Every process of a site imports this first. It looks for garbage less often than Python does by default: the start of
Django makes 130,000 objects that stay, and looking through them again and again took a tenth of the time.
"""

import gc

YOUNG_OBJECTS = 50_000  # are made before it looks; 700 by default

gc.set_threshold(YOUNG_OBJECTS)
