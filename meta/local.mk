noinst_LIBRARIES += meta/libmeta.a
meta_libmeta_a_SOURCES = \
	meta/client/age.c meta/client/age.h \
	meta/state/apply.c meta/state/apply.h meta/state/apply_batch.c meta/state/apply_guard.c meta/state/apply_held.c meta/state/apply_private.h meta/state/apply_scan.c meta/state/apply_tell.c \
	meta/client/cloudhub.c meta/client/cloudhub_ask.c meta/client/cloudhub_private.h meta/client/cloudhub_told.c \
	meta/client/feed.c meta/client/feed.h meta/client/feed_answer.c meta/client/feed_crl.c meta/client/feed_join.c meta/client/feed_private.h meta/client/feed_renew.c \
	meta/client/feed_hub.c meta/client/feed_refusal.c meta/client/feed_talk.c meta/client/feed_why.c \
	meta/client/hubtime.c meta/client/hubtime.h \
	meta/state/ipam.c meta/state/ipam.h \
	meta/client/join.c meta/client/join.h \
	meta/state/load.c meta/state/load.h \
	meta/client/message.c meta/client/message.h \
	meta/meta.c meta/meta.h meta/meta_private.h meta/meta_tell.c \
	meta/client/places.c meta/client/places.h \
	meta/client/question.h \
	meta/client/mirror.c meta/client/mirror.h meta/client/mirror_names.c meta/client/mirror_private.h meta/client/mirror_take.c \
	meta/state/store.c meta/state/store.h meta/state/store_open.c meta/state/store_private.h \
	meta/state/writer.c meta/state/writer.h

META_LDADD = meta/libmeta.a $(MODEL_LDADD) $(SQLITE_LIBS)

FUZZERS += tests/fuzz/message_fuzz
tests_fuzz_message_fuzz_SOURCES = tests/fuzz/message_fuzz.c
tests_fuzz_message_fuzz_LDADD = $(META_LDADD)

if HAVE_CMOCKA
META_TESTS = tests/unit/meta/client/age_test tests/unit/meta/client/feed_test tests/unit/meta/state/ipam_test tests/unit/meta/client/join_test tests/unit/meta/client/message_test tests/unit/meta/client/mirror_test tests/unit/meta/client/places_test tests/unit/meta/state/store_power_test tests/unit/meta/state/store_test
check_PROGRAMS += $(META_TESTS)
TESTS += $(META_TESTS)
tests_unit_meta_client_age_test_SOURCES = tests/unit/meta/client/age_test.c
tests_unit_meta_client_age_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_age_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mono_ms -Wl,--wrap=wall_ms
tests_unit_meta_client_feed_test_SOURCES = tests/unit/meta/client/feed_test.c tests/unit/meta/client/feed_hub.c tests/unit/meta/client/feed_hub.h $(PATIENCE)
tests_unit_meta_client_feed_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_state_ipam_test_SOURCES = tests/unit/meta/state/ipam_test.c
tests_unit_meta_state_ipam_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_join_test_SOURCES = tests/unit/meta/client/join_test.c
tests_unit_meta_client_join_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_message_test_SOURCES = tests/unit/meta/client/message_test.c
tests_unit_meta_client_message_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_mirror_test_SOURCES = tests/unit/meta/client/mirror_test.c
tests_unit_meta_client_mirror_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_places_test_SOURCES = tests/unit/meta/client/places_test.c
tests_unit_meta_client_places_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_state_store_power_test_SOURCES = tests/unit/meta/state/store_power_test.c
tests_unit_meta_state_store_power_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_state_store_test_SOURCES = tests/unit/meta/state/store_test.c
tests_unit_meta_state_store_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
endif
