noinst_LIBRARIES += iptables/libiptables.a
iptables_libiptables_a_SOURCES = \
	iptables/batch.c iptables/batch.h \
	iptables/bridge_port.c iptables/bridge_port.h \
	iptables/capture.c iptables/capture.h \
	iptables/conntrack.c iptables/conntrack.h iptables/flow.c \
	iptables/describe.c iptables/describe.h \
	iptables/divert.c iptables/divert.h \
	iptables/elements.c iptables/elements.h \
	iptables/expr.c iptables/expr.h \
	iptables/iface.c iptables/iface.h \
	iptables/kernelpath.c iptables/kernelpath.h \
	iptables/hairpin.c iptables/hairpin.h \
	iptables/foreign.c iptables/foreign.h \
	iptables/iptables.c iptables/iptables.h iptables/iptables_private.h \
	iptables/iptables_report.c iptables/estate.c \
	iptables/guard.c iptables/guard.h \
	iptables/netlink.c iptables/netlink.h \
	iptables/others.c iptables/others.h \
	iptables/obstacles.c iptables/obstacles.h \
	iptables/difference.c iptables/difference.h \
	iptables/frontends.c iptables/frontends.h \
	iptables/plan.c iptables/plan.h \
	iptables/probe.c iptables/probe.h \
	iptables/reserve.c iptables/reserve.h \
	iptables/route.c iptables/route.h \
	iptables/rules.c iptables/rules.h

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/divert_test tests/unit/frontends_test tests/unit/plan_test tests/unit/rules_test tests/unit/reserve_test tests/unit/iptables_test
TESTS += tests/unit/divert_test tests/unit/frontends_test tests/unit/plan_test tests/unit/rules_test tests/unit/reserve_test tests/unit/iptables_test
endif
IPTABLES_TEST_LDADD = iptables/libiptables.a $(MODEL_LDADD) $(NFTNL_LIBS) $(MNL_LIBS) $(CMOCKA_LIBS)
tests_unit_divert_test_SOURCES = tests/unit/divert_test.c $(PATIENCE)
tests_unit_divert_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_frontends_test_SOURCES = tests/unit/frontends_test.c
tests_unit_frontends_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_plan_test_SOURCES = tests/unit/plan_test.c
tests_unit_plan_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_rules_test_SOURCES = tests/unit/rules_test.c
tests_unit_rules_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_reserve_test_SOURCES = tests/unit/reserve_test.c
tests_unit_reserve_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_test_SOURCES = tests/unit/iptables_test.c $(PATIENCE)
tests_unit_iptables_test_LDADD = $(IPTABLES_TEST_LDADD)

FUZZERS += tests/fuzz/reserve_fuzz
tests_fuzz_reserve_fuzz_SOURCES = tests/fuzz/reserve_fuzz.c
tests_fuzz_reserve_fuzz_LDADD = iptables/libiptables.a $(MODEL_LDADD)
