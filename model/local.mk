noinst_LIBRARIES += model/libmodel.a
model_libmodel_a_SOURCES = \
	model/check.c model/check.h \
	model/digest.c model/digest.h \
	model/envelope.c model/envelope.h \
	model/json.c model/json.h \
	model/mesh.h \
	model/service.c model/service.h \
	model/service_build.c \
	model/shard.c model/shard.h \
	model/snapshot.c model/snapshot.h \
	model/view.c model/view.h \
	model/view_json.c

if HAVE_CMOCKA
MODEL_TESTS = \
	tests/unit/digest_test \
	tests/unit/envelope_test \
	tests/unit/service_test \
	tests/unit/snapshot_test \
	tests/unit/view_test
check_PROGRAMS += $(MODEL_TESTS)
TESTS += $(MODEL_TESTS)
tests_unit_digest_test_SOURCES = tests/unit/digest_test.c
tests_unit_digest_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_envelope_test_SOURCES = tests/unit/envelope_test.c
tests_unit_envelope_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_service_test_SOURCES = tests/unit/service_test.c
tests_unit_service_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_snapshot_test_SOURCES = tests/unit/snapshot_test.c
tests_unit_snapshot_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_view_test_SOURCES = tests/unit/view_test.c
tests_unit_view_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
endif
