"""The ground floor.

Dtypes, shapes, schemas, the registry, the Tensor and dispatch. Imports nothing above it.
"""

import time

# When the package began to be read, by the clock of file times: memory has what the files held then.
IMPORTED_AT = time.time_ns()
