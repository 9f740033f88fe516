noinst_LIBRARIES += meta/libmeta.a
meta_libmeta_a_SOURCES = \
	meta/age.c meta/age.h \
	meta/apply.c meta/apply.h meta/apply_batch.c meta/apply_guard.c meta/apply_held.c meta/apply_private.h meta/apply_scan.c meta/apply_tell.c \
	meta/cloudhub.c meta/cloudhub_ask.c meta/cloudhub_private.h meta/cloudhub_told.c \
	meta/feed.c meta/feed.h meta/feed_answer.c meta/feed_crl.c meta/feed_join.c meta/feed_private.h meta/feed_renew.c \
	meta/feed_hub.c meta/feed_refusal.c meta/feed_talk.c meta/feed_why.c \
	meta/hubtime.c meta/hubtime.h \
	meta/ipam.c meta/ipam.h \
	meta/join.c meta/join.h \
	meta/load.c meta/load.h \
	meta/message.c meta/message.h \
	meta/meta.c meta/meta.h meta/meta_private.h meta/meta_tell.c \
	meta/places.c meta/places.h \
	meta/question.h \
	meta/mirror.c meta/mirror.h meta/mirror_names.c meta/mirror_private.h meta/mirror_take.c \
	meta/store.c meta/store.h meta/store_open.c meta/store_private.h \
	meta/writer.c meta/writer.h

META_LDADD = meta/libmeta.a $(MODEL_LDADD) $(SQLITE_LIBS)

FUZZERS += tests/fuzz/message_fuzz
tests_fuzz_message_fuzz_SOURCES = tests/fuzz/message_fuzz.c
tests_fuzz_message_fuzz_LDADD = $(META_LDADD)

if HAVE_CMOCKA
META_TESTS = tests/unit/age_test tests/unit/feed_test tests/unit/ipam_test tests/unit/join_test tests/unit/message_test tests/unit/mirror_test tests/unit/places_test tests/unit/store_power_test tests/unit/store_test
check_PROGRAMS += $(META_TESTS)
TESTS += $(META_TESTS)
tests_unit_age_test_SOURCES = tests/unit/age_test.c
tests_unit_age_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_age_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mono_ms -Wl,--wrap=wall_ms
tests_unit_feed_test_SOURCES = tests/unit/feed_test.c tests/unit/feed_hub.c tests/unit/feed_hub.h $(PATIENCE)
tests_unit_feed_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_ipam_test_SOURCES = tests/unit/ipam_test.c
tests_unit_ipam_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_join_test_SOURCES = tests/unit/join_test.c
tests_unit_join_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_message_test_SOURCES = tests/unit/message_test.c
tests_unit_message_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_mirror_test_SOURCES = tests/unit/mirror_test.c
tests_unit_mirror_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_places_test_SOURCES = tests/unit/places_test.c
tests_unit_places_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_store_power_test_SOURCES = tests/unit/store_power_test.c
tests_unit_store_power_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_store_test_SOURCES = tests/unit/store_test.c
tests_unit_store_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
endif
