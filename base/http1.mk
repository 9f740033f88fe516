# http1: its owner fills this in, tests included.
base_libbase_a_SOURCES +=
