noinst_LIBRARIES += hub/libhub.a
hub_libhub_a_SOURCES = 
