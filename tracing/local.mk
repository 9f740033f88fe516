noinst_LIBRARIES += tracing/libtracing.a
tracing_libtracing_a_SOURCES = \
	tracing/body.c tracing/body.h \
	tracing/collector.c tracing/collector.h \
	tracing/otlp.c tracing/otlp.h tracing/otlp_carried.c tracing/otlp_span.c tracing/otlp_span.h \
	tracing/post.c tracing/post.h \
	tracing/reply.c tracing/reply.h \
	tracing/tracing.c tracing/tracing.h

TRACING_LDADD = tracing/libtracing.a $(MODEL_LDADD)

FUZZERS += tests/fuzz/tracing_fuzz
tests_fuzz_tracing_fuzz_SOURCES = tests/fuzz/tracing_fuzz.c
tests_fuzz_tracing_fuzz_LDADD = $(TRACING_LDADD)

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/tracing/otlp_test tests/unit/tracing/post_test
TESTS += tests/unit/tracing/otlp_test tests/unit/tracing/post_test
tests_unit_tracing_otlp_test_SOURCES = tests/unit/tracing/otlp_test.c
tests_unit_tracing_otlp_test_LDADD = $(TRACING_LDADD) $(CMOCKA_LIBS)
tests_unit_tracing_post_test_SOURCES = tests/unit/tracing/post_test.c
tests_unit_tracing_post_test_LDADD = $(TRACING_LDADD) $(CMOCKA_LIBS)
endif
