noinst_LIBRARIES += src/libsrc.a
src_libsrc_a_SOURCES = \
	src/agent_options.c src/agent_options.h \
	src/hub_options.c src/hub_options.h \
	src/option_checks.c src/option_checks.h
