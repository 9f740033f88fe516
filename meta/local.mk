noinst_LIBRARIES += meta/libmeta.a
meta_libmeta_a_SOURCES = 
