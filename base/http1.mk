base_libbase_a_SOURCES += base/http/http1.c base/http/http1.h base/http/http1_body.c base/http/http1_emit.c \
	base/http/http1_exchange.c base/http/http1_fields.c base/http/http1_private.h base/http/http1_target.c base/http/http1_trailers.c
HTTP1_STRICT = tests/unit/base/http/http1_strict.c tests/unit/base/http/http1_strict.h
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/base/http/http1_test tests/unit/base/http/http1_bytes_test tests/unit/base/http/http1_exchange_test
TESTS += tests/unit/base/http/http1_test tests/unit/base/http/http1_bytes_test tests/unit/base/http/http1_exchange_test
tests_unit_base_http_http1_bytes_test_SOURCES = tests/unit/base/http/http1_bytes_test.c $(HTTP1_STRICT)
tests_unit_base_http_http1_bytes_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_http1_exchange_test_SOURCES = tests/unit/base/http/http1_exchange_test.c
tests_unit_base_http_http1_exchange_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_http1_test_SOURCES = tests/unit/base/http/http1_test.c
tests_unit_base_http_http1_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
FUZZERS += tests/fuzz/http_fuzz
tests_fuzz_http_fuzz_SOURCES = tests/fuzz/http_fuzz.c $(HTTP1_STRICT)
tests_fuzz_http_fuzz_LDADD = $(BASE_LDADD)
