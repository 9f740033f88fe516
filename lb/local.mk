noinst_LIBRARIES += lb/liblb.a
lb_liblb_a_SOURCES = 
