base_libbase_a_SOURCES += base/http/grpc.c base/http/grpc.h base/http/grpc_call.c base/http/grpc_call.h base/http/frame_budget.c base/http/frame_budget.h base/http/h2.c base/http/h2.h base/http/h2_head.c \
	base/http/h2_preface.c base/http/h2_preface.h base/http/session_memory.c base/http/session_memory.h
if HAVE_CMOCKA
H2_TESTS = tests/unit/base/http/grpc_test tests/unit/base/http/h2_test
check_PROGRAMS += $(H2_TESTS)
TESTS += $(H2_TESTS)
tests_unit_base_http_grpc_test_SOURCES = tests/unit/base/http/grpc_test.c
tests_unit_base_http_grpc_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_h2_test_SOURCES = tests/unit/base/http/h2_test.c
tests_unit_base_http_h2_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
FUZZERS += tests/fuzz/h2_fuzz
tests_fuzz_h2_fuzz_SOURCES = tests/fuzz/h2_fuzz.c
tests_fuzz_h2_fuzz_LDADD = $(BASE_LDADD)
