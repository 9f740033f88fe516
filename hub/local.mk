noinst_LIBRARIES += hub/libhub.a
hub_libhub_a_SOURCES = \
	hub/certs.c hub/certs.h \
	hub/claims.c hub/claims.h \
	hub/fanout.c hub/fanout.h \
	hub/hub.c hub/hub.h \
	hub/join.c hub/join.h \
	hub/listen.c hub/listen.h \
	hub/manifest_file.c hub/manifest_file.h \
	hub/manifests.c hub/manifests.h \
	hub/nodes.c hub/nodes.h \
	hub/route.c hub/route.h \
	hub/session.c hub/session.h \
	hub/tokens.c hub/tokens.h

HUB_LDADD = hub/libhub.a $(MODEL_LDADD)
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/hub_test
TESTS += tests/unit/hub_test
tests_unit_hub_test_SOURCES = tests/unit/hub_test.c
tests_unit_hub_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
endif
