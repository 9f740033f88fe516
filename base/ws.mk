base_libbase_a_SOURCES += \
	base/carrier.c base/carrier.h base/carrier_head.c base/carrier_head.h \
	base/carriers.c base/carriers.h \
	base/pki.c base/pki.h \
	base/pki_ctx.c \
	base/pki_crl.c base/pki_crl.h \
	base/pki_issue.c \
	base/pki_openssl.h \
	base/pki_tls.c base/pki_tls.h \
	base/pki_trust.c base/pki_trust.h \
	base/tls_alpn.c base/tls_alpn.h \
	base/tls_socket.c base/tls_socket.h \
	base/tls_stream.c base/tls_stream.h base/tls_private.h base/tls_records.c \
	base/ws.c base/ws.h \
	base/ws_dial.c \
	base/ws_events.c base/ws_free.c base/ws_lws.h \
	base/ws_proxy.c \
	base/ws_upgrade.c \
	base/wsframe.c base/wsframe.h \
	base/wshake.c base/wshake.h

FUZZERS += tests/fuzz/carrier_fuzz
tests_fuzz_carrier_fuzz_SOURCES = tests/fuzz/carrier_fuzz.c
tests_fuzz_carrier_fuzz_LDADD = $(BASE_LDADD)

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/wsframe_test
TESTS += tests/unit/wsframe_test
tests_unit_wsframe_test_SOURCES = tests/unit/wsframe_test.c
tests_unit_wsframe_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/pki_test tests/unit/tls_stream_test tests/unit/ws_test tests/unit/ws_hostile_test
TESTS += tests/unit/pki_test tests/unit/tls_stream_test tests/unit/ws_test tests/unit/ws_hostile_test
tests_unit_pki_test_SOURCES = tests/unit/pki_test.c
tests_unit_pki_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_tls_stream_test_SOURCES = tests/unit/tls_stream_test.c $(CLOCK)
tests_unit_tls_stream_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_ws_test_SOURCES = tests/unit/ws_test.c $(PATIENCE) tests/unit/ws_bed.c tests/unit/ws_bed.h
tests_unit_ws_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_ws_hostile_test_SOURCES = tests/unit/ws_hostile_test.c $(PATIENCE) tests/unit/ws_bed.c \
	tests/unit/ws_bed.h
tests_unit_ws_hostile_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
