noinst_LIBRARIES += dns/libdns.a
dns_libdns_a_SOURCES = \
	dns/answer/answer.c dns/answer/answer.h \
	dns/answer/answer_private.h \
	dns/answer/answer_pod.c \
	dns/answer/answer_reverse.c \
	dns/answer/answer_service.c \
	dns/forward/cache.c dns/forward/cache.h \
	dns/forward/cookie.c dns/forward/cookie.h \
	dns/dns.c dns/dns.h dns/dns_private.h \
	dns/forward/forward.c dns/forward/forward.h dns/forward/forward_private.h dns/forward/forward_use.c \
	dns/front/gso.c dns/front/gso.h \
	dns/forward/health.c dns/forward/health.h \
	dns/forward/loop_probe.c dns/forward/loop_probe.h \
	dns/forward/limit.c dns/forward/limit.h \
	dns/forward/lookup.c dns/forward/lookup.h \
	dns/answer/message.c dns/answer/message.h \
	dns/answer/zone_answer.c dns/answer/zone_answer.h \
	dns/front/zone_server.c dns/front/zone_server.h \
	dns/front/batching.c dns/front/batching.h \
	dns/report.c \
	dns/resolvconf/resolvconf.c dns/resolvconf/resolvconf.h \
	dns/resolvconf/resolvfile.c dns/resolvconf/resolvfile.h \
	dns/resolvconf/resolvkeep.c dns/resolvconf/resolvkeep.h \
	dns/resolvconf/resolvlink.c dns/resolvconf/resolvlink.h \
	dns/resolvconf/resolvtext.c dns/resolvconf/resolvtext.h \
	dns/resolvconf/resolvwatch.c dns/resolvconf/resolvwatch.h \
	dns/forward/rewrite.c dns/forward/rewrite.h \
	dns/forward/upstreams.c dns/forward/upstreams.h \
	dns/front/server.c dns/front/server.h \
	dns/forward/client.h \
	dns/forward/client_quota.c dns/forward/client_quota.h \
	dns/front/tcp.c dns/front/tcp.h \
	dns/front/udp.c dns/front/udp.h \
	dns/forward/upstream.c dns/forward/upstream.h

DNS_TESTS = tests/unit/dns/answer/dns_message_test tests/unit/dns/answer/dns_answer_test \
	tests/unit/dns/answer/dns_answer6_test tests/unit/dns/front/dns_server_test \
	tests/unit/dns/front/dns_udp_test tests/unit/dns/dns_alloc_test tests/unit/dns/forward/dns_upstream_test \
	tests/unit/dns/dns_threads_test tests/unit/dns/forward/dns_cache_test tests/unit/dns/forward/dns_lookup_test \
	tests/unit/dns/answer/zone_answer_test tests/unit/dns/resolvconf/resolvtext_test tests/unit/dns/resolvconf/resolvconf_test \
	tests/unit/dns/resolvconf/resolvlink_test tests/unit/dns/resolvconf/resolvwatch_test
DNS_KIT = tests/unit/dns/dns_kit.c tests/unit/dns/dns_kit.h
DNS_BED = $(DNS_KIT) $(CLOCK) tests/unit/dns/dns_bed.c tests/unit/dns/dns_bed.h
DNS_LDADD = dns/libdns.a $(MODEL_LDADD)
if HAVE_CMOCKA
check_PROGRAMS += $(DNS_TESTS)
TESTS += $(DNS_TESTS)
endif
tests_unit_dns_answer_dns_message_test_SOURCES = tests/unit/dns/answer/dns_message_test.c $(DNS_KIT)
tests_unit_dns_answer_dns_message_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_answer_zone_answer_test_SOURCES = tests/unit/dns/answer/zone_answer_test.c $(DNS_KIT)
tests_unit_dns_answer_zone_answer_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
ANSWER_BED = tests/unit/dns/answer/answer_bed.c tests/unit/dns/answer/answer_bed.h $(DNS_KIT)
tests_unit_dns_answer_dns_answer_test_SOURCES = tests/unit/dns/answer/dns_answer_test.c $(ANSWER_BED)
tests_unit_dns_answer_dns_answer_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_answer_dns_answer6_test_SOURCES = tests/unit/dns/answer/dns_answer6_test.c $(ANSWER_BED)
tests_unit_dns_answer_dns_answer6_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_front_dns_server_test_SOURCES = tests/unit/dns/front/dns_server_test.c $(DNS_BED)
tests_unit_dns_front_dns_server_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_dns_alloc_test_SOURCES = tests/unit/dns/dns_alloc_test.c $(DNS_BED)
tests_unit_dns_dns_alloc_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_dns_alloc_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
tests_unit_dns_front_dns_udp_test_SOURCES = tests/unit/dns/front/dns_udp_test.c $(CLOCK)
tests_unit_dns_front_dns_udp_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_dns_threads_test_SOURCES = tests/unit/dns/dns_threads_test.c $(DNS_KIT)
tests_unit_dns_dns_threads_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_forward_dns_lookup_test_SOURCES = tests/unit/dns/forward/dns_lookup_test.c $(DNS_BED)
tests_unit_dns_forward_dns_lookup_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_forward_dns_upstream_test_SOURCES = tests/unit/dns/forward/dns_upstream_test.c $(DNS_BED)
tests_unit_dns_forward_dns_upstream_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_forward_dns_cache_test_SOURCES = tests/unit/dns/forward/dns_cache_test.c $(DNS_KIT)
tests_unit_dns_forward_dns_cache_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_resolvconf_resolvtext_test_SOURCES = tests/unit/dns/resolvconf/resolvtext_test.c
tests_unit_dns_resolvconf_resolvtext_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_resolvconf_resolvconf_test_SOURCES = tests/unit/dns/resolvconf/resolvconf_test.c tests/unit/dns/resolvconf/resolv_bed.h
tests_unit_dns_resolvconf_resolvconf_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_resolvconf_resolvwatch_test_SOURCES = tests/unit/dns/resolvconf/resolvwatch_test.c tests/unit/dns/resolvconf/resolv_bed.h $(CLOCK)
tests_unit_dns_resolvconf_resolvwatch_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_resolvconf_resolvlink_test_SOURCES = tests/unit/dns/resolvconf/resolvlink_test.c $(PATIENCE)
tests_unit_dns_resolvconf_resolvlink_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)

FUZZERS += tests/fuzz/dns_fuzz tests/fuzz/resolv_fuzz
tests_fuzz_dns_fuzz_SOURCES = tests/fuzz/dns_fuzz.c $(DNS_KIT)
tests_fuzz_dns_fuzz_LDADD = $(DNS_LDADD)
tests_fuzz_resolv_fuzz_SOURCES = tests/fuzz/resolv_fuzz.c
tests_fuzz_resolv_fuzz_LDADD = $(DNS_LDADD)
