noinst_LIBRARIES += dns/libdns.a
dns_libdns_a_SOURCES = \
	dns/answer.c dns/answer.h \
	dns/answer_private.h \
	dns/answer_reverse.c \
	dns/answer_service.c \
	dns/cache.c dns/cache.h \
	dns/cookie.c dns/cookie.h \
	dns/dns.c dns/dns.h dns/dns_private.h \
	dns/forward.c dns/forward.h dns/forward_private.h dns/forward_use.c \
	dns/group.c dns/group.h \
	dns/health.c dns/health.h \
	dns/loopname.c dns/loopname.h \
	dns/limit.c dns/limit.h \
	dns/lookup.c dns/lookup.h \
	dns/message.c dns/message.h \
	dns/nameanswer.c dns/nameanswer.h \
	dns/nameserver.c dns/nameserver.h \
	dns/pace.c dns/pace.h \
	dns/report.c \
	dns/resolvconf.c dns/resolvconf.h \
	dns/resolvfile.c dns/resolvfile.h \
	dns/resolvkeep.c dns/resolvkeep.h \
	dns/resolvtext.c dns/resolvtext.h \
	dns/resolvwatch.c dns/resolvwatch.h \
	dns/rewrite.c dns/rewrite.h \
	dns/roster.c dns/roster.h \
	dns/server.c dns/server.h \
	dns/share.c dns/share.h \
	dns/tcp.c dns/tcp.h \
	dns/udp.c dns/udp.h \
	dns/upstream.c dns/upstream.h

DNS_TESTS = tests/unit/dns_message_test tests/unit/dns_answer_test tests/unit/dns_server_test \
	tests/unit/dns_udp_test tests/unit/dns_alloc_test tests/unit/dns_upstream_test \
	tests/unit/dns_threads_test tests/unit/dns_cache_test tests/unit/dns_lookup_test \
	tests/unit/nameanswer_test tests/unit/resolvtext_test tests/unit/resolvconf_test
DNS_KIT = tests/unit/dns_kit.c tests/unit/dns_kit.h
DNS_BED = $(DNS_KIT) $(CLOCK) tests/unit/dns_bed.c tests/unit/dns_bed.h
DNS_LDADD = dns/libdns.a $(MODEL_LDADD)
if HAVE_CMOCKA
check_PROGRAMS += $(DNS_TESTS)
TESTS += $(DNS_TESTS)
endif
tests_unit_dns_message_test_SOURCES = tests/unit/dns_message_test.c $(DNS_KIT)
tests_unit_dns_message_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_nameanswer_test_SOURCES = tests/unit/nameanswer_test.c $(DNS_KIT)
tests_unit_nameanswer_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_answer_test_SOURCES = tests/unit/dns_answer_test.c $(DNS_KIT)
tests_unit_dns_answer_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_server_test_SOURCES = tests/unit/dns_server_test.c $(DNS_BED)
tests_unit_dns_server_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_alloc_test_SOURCES = tests/unit/dns_alloc_test.c $(DNS_BED)
tests_unit_dns_alloc_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_alloc_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
tests_unit_dns_udp_test_SOURCES = tests/unit/dns_udp_test.c $(CLOCK)
tests_unit_dns_udp_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_threads_test_SOURCES = tests/unit/dns_threads_test.c $(DNS_KIT)
tests_unit_dns_threads_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_lookup_test_SOURCES = tests/unit/dns_lookup_test.c $(DNS_BED)
tests_unit_dns_lookup_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_upstream_test_SOURCES = tests/unit/dns_upstream_test.c $(DNS_BED)
tests_unit_dns_upstream_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_dns_cache_test_SOURCES = tests/unit/dns_cache_test.c $(DNS_KIT)
tests_unit_dns_cache_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_resolvtext_test_SOURCES = tests/unit/resolvtext_test.c
tests_unit_resolvtext_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)
tests_unit_resolvconf_test_SOURCES = tests/unit/resolvconf_test.c $(CLOCK)
tests_unit_resolvconf_test_LDADD = $(DNS_LDADD) $(CMOCKA_LIBS)

FUZZERS += tests/fuzz/dns_fuzz tests/fuzz/resolv_fuzz
tests_fuzz_dns_fuzz_SOURCES = tests/fuzz/dns_fuzz.c $(DNS_KIT)
tests_fuzz_dns_fuzz_LDADD = $(DNS_LDADD)
tests_fuzz_resolv_fuzz_SOURCES = tests/fuzz/resolv_fuzz.c
tests_fuzz_resolv_fuzz_LDADD = $(DNS_LDADD)
