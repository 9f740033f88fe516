# The DNS client (c-ares).
base_libbase_a_SOURCES += base/net/resolve.c base/net/resolve.h base/net/resolve_channels.c base/net/resolve_channels.h

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/base/net/resolve_test
TESTS += tests/unit/base/net/resolve_test
tests_unit_base_net_resolve_test_SOURCES = tests/unit/base/net/resolve_test.c $(CLOCK)
tests_unit_base_net_resolve_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
