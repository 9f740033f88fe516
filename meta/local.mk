noinst_LIBRARIES += meta/libmeta.a
meta_libmeta_a_SOURCES = \
	meta/client/staleness.c meta/client/staleness.h \
	meta/state/apply.c meta/state/apply.h meta/state/apply_batch.c meta/state/apply_guard.c meta/state/apply_held.c meta/state/apply_private.h meta/state/apply_scan.c meta/state/apply_tell.c \
	meta/client/cloudhub.c meta/client/cloudhub_ask.c meta/client/cloudhub_private.h meta/client/cloudhub_told.c \
	meta/client/hub_client.c meta/client/hub_client.h meta/client/hub_client_answer.c meta/client/hub_client_crl.c meta/client/hub_client_join.c meta/client/hub_client_private.h meta/client/hub_client_renew.c \
	meta/client/hub_client_hub.c meta/client/hub_client_known.c meta/client/hub_client_refusal.c meta/client/hub_client_talk.c meta/client/hub_client_why.c \
	meta/client/clock_skew.c meta/client/clock_skew.h \
	meta/state/ipam.c meta/state/ipam.h \
	meta/client/join.c meta/client/join.h \
	meta/state/load.c meta/state/load.h \
	meta/client/message.c meta/client/message.h \
	meta/meta.c meta/meta.h meta/meta_private.h meta/meta_tell.c \
	meta/client/hub_addresses.c meta/client/hub_addresses.h \
	meta/client/pod_asks.c meta/client/pod_asks.h \
	meta/client/question.h \
	meta/client/cloudhub_cache.c meta/client/cloudhub_cache.h meta/client/cloudhub_cache_names.c meta/client/cloudhub_cache_private.h meta/client/cloudhub_cache_take.c \
	meta/state/store.c meta/state/store.h meta/state/store_open.c meta/state/store_private.h meta/state/store_values.c meta/state/store_values.h \
	meta/state/writer.c meta/state/writer.h

META_LDADD = meta/libmeta.a $(MODEL_LDADD) $(SQLITE_LIBS)

FUZZERS += tests/fuzz/cloudhub_fuzz tests/fuzz/message_fuzz
tests_fuzz_cloudhub_fuzz_SOURCES = tests/fuzz/cloudhub_fuzz.c
tests_fuzz_cloudhub_fuzz_LDADD = $(META_LDADD)
tests_fuzz_message_fuzz_SOURCES = tests/fuzz/message_fuzz.c
tests_fuzz_message_fuzz_LDADD = $(META_LDADD)

if HAVE_CMOCKA
META_TESTS = tests/unit/meta/meta_test tests/unit/meta/client/pod_asks_test tests/unit/meta/client/staleness_test tests/unit/meta/client/hub_client_crl_test tests/unit/meta/client/hub_client_test tests/unit/meta/state/apply_test tests/unit/meta/state/ipam_test tests/unit/meta/client/join_test tests/unit/meta/client/message_test tests/unit/meta/client/cloudhub_cache_test tests/unit/meta/client/hub_addresses_test tests/unit/meta/state/store_power_test tests/unit/meta/state/store_test tests/unit/meta/state/writer_test
check_PROGRAMS += $(META_TESTS)
TESTS += $(META_TESTS)
tests_unit_meta_client_staleness_test_SOURCES = tests/unit/meta/client/staleness_test.c
tests_unit_meta_client_staleness_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_staleness_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mono_ms -Wl,--wrap=wall_ms
tests_unit_meta_client_hub_client_crl_test_SOURCES = tests/unit/meta/client/hub_client_crl_test.c
tests_unit_meta_client_hub_client_crl_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_hub_client_crl_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=apply_note
tests_unit_meta_client_hub_client_test_SOURCES = tests/unit/meta/client/hub_client_test.c tests/unit/meta/client/feed_hub.c tests/unit/meta/client/feed_hub.h $(PATIENCE)
tests_unit_meta_client_hub_client_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_meta_test_SOURCES = tests/unit/meta/meta_test.c tests/unit/patience.h
tests_unit_meta_meta_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_state_apply_test_SOURCES = tests/unit/meta/state/apply_test.c $(CLOCK)
tests_unit_meta_state_apply_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_state_ipam_test_SOURCES = tests/unit/meta/state/ipam_test.c
tests_unit_meta_state_ipam_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_pod_asks_test_SOURCES = tests/unit/meta/client/pod_asks_test.c
tests_unit_meta_client_pod_asks_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_join_test_SOURCES = tests/unit/meta/client/join_test.c
tests_unit_meta_client_join_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_message_test_SOURCES = tests/unit/meta/client/message_test.c
tests_unit_meta_client_message_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_cloudhub_cache_test_SOURCES = tests/unit/meta/client/cloudhub_cache_test.c
tests_unit_meta_client_cloudhub_cache_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_client_hub_addresses_test_SOURCES = tests/unit/meta/client/hub_addresses_test.c
tests_unit_meta_client_hub_addresses_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_state_store_power_test_SOURCES = tests/unit/meta/state/store_power_test.c
tests_unit_meta_state_store_power_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_state_store_test_SOURCES = tests/unit/meta/state/store_test.c
tests_unit_meta_state_store_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_meta_state_writer_test_SOURCES = tests/unit/meta/state/writer_test.c tests/unit/patience.h
tests_unit_meta_state_writer_test_LDADD = $(META_LDADD) $(CMOCKA_LIBS)
endif
