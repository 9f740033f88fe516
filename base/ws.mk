base_libbase_a_SOURCES += \
	base/pki.c base/pki.h \
	base/pki_issue.c \
	base/pki_openssl.h \
	base/pki_tls.c base/pki_tls.h \
	base/tls_stream.c base/tls_stream.h \
	base/ws.c base/ws.h \
	base/ws_dial.c \
	base/ws_events.c base/ws_free.c base/ws_lws.h \
	base/ws_proxy.c \
	base/ws_upgrade.c

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/pki_test tests/unit/tls_stream_test tests/unit/ws_test tests/unit/ws_hostile_test
TESTS += tests/unit/pki_test tests/unit/tls_stream_test tests/unit/ws_test tests/unit/ws_hostile_test
tests_unit_pki_test_SOURCES = tests/unit/pki_test.c
tests_unit_pki_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_tls_stream_test_SOURCES = tests/unit/tls_stream_test.c
tests_unit_tls_stream_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_ws_test_SOURCES = tests/unit/ws_test.c tests/unit/ws_bed.c tests/unit/ws_bed.h
tests_unit_ws_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_ws_hostile_test_SOURCES = tests/unit/ws_hostile_test.c tests/unit/ws_bed.c \
	tests/unit/ws_bed.h
tests_unit_ws_hostile_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
