base_libbase_a_SOURCES += \
	base/http/ws_tunnel.c base/http/ws_tunnel.h base/http/ws_tunnel_head.c base/http/ws_tunnel_head.h \
	base/http/ws_tunnels.c base/http/ws_tunnels.h \
	base/tls/pki.c base/tls/pki.h \
	base/tls/pki_ctx.c \
	base/tls/pki_crl.c base/tls/pki_crl.h \
	base/tls/pki_issue.c \
	base/tls/pki_openssl.h \
	base/tls/pki_tls.c base/tls/pki_tls.h \
	base/tls/pki_trust.c base/tls/pki_trust.h \
	base/tls/tls_alpn.c base/tls/tls_alpn.h \
	base/tls/tls_socket.c base/tls/tls_socket.h \
	base/tls/tls_session.c base/tls/tls_session.h \
	base/tls/tls_stream.c base/tls/tls_stream.h base/tls/tls_private.h base/tls/tls_records.c \
	base/http/ws.c base/http/ws.h \
	base/http/ws_dial.c \
	base/http/ws_events.c base/http/ws_free.c base/http/ws_lws.h \
	base/http/ws_proxy.c \
	base/http/ws_upgrade.c \
	base/http/wsframe.c base/http/wsframe.h \
	base/http/wshake.c base/http/wshake.h

FUZZERS += tests/fuzz/carrier_fuzz
tests_fuzz_carrier_fuzz_SOURCES = tests/fuzz/carrier_fuzz.c
tests_fuzz_carrier_fuzz_LDADD = $(BASE_LDADD)

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/base/http/wsframe_test
TESTS += tests/unit/base/http/wsframe_test
tests_unit_base_http_wsframe_test_SOURCES = tests/unit/base/http/wsframe_test.c
tests_unit_base_http_wsframe_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/base/tls/pki_test tests/unit/base/tls/tls_stream_test tests/unit/base/tls/tls_handshake_test tests/unit/base/http/ws_test tests/unit/base/http/ws_hostile_test
TESTS += tests/unit/base/tls/pki_test tests/unit/base/tls/tls_stream_test tests/unit/base/tls/tls_handshake_test tests/unit/base/http/ws_test tests/unit/base/http/ws_hostile_test
tests_unit_base_tls_pki_test_SOURCES = tests/unit/base/tls/pki_test.c
tests_unit_base_tls_pki_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
TLS_KEYS = tests/unit/base/tls/tls_keys.c tests/unit/base/tls/tls_keys.h
WORKERS_BED = tests/unit/base/tls/workers_bed.c tests/unit/base/tls/workers_bed.h $(TLS_KEYS)
tests_unit_base_tls_tls_stream_test_SOURCES = tests/unit/base/tls/tls_stream_test.c $(TLS_KEYS) $(CLOCK)
tests_unit_base_tls_tls_stream_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_tls_tls_handshake_test_SOURCES = tests/unit/base/tls/tls_handshake_test.c $(WORKERS_BED)
tests_unit_base_tls_tls_handshake_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_ws_test_SOURCES = tests/unit/base/http/ws_test.c $(PATIENCE) tests/unit/base/http/ws_bed.c tests/unit/base/http/ws_bed.h
tests_unit_base_http_ws_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_ws_hostile_test_SOURCES = tests/unit/base/http/ws_hostile_test.c $(PATIENCE) tests/unit/base/http/ws_bed.c \
	tests/unit/base/http/ws_bed.h
tests_unit_base_http_ws_hostile_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
