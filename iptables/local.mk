noinst_LIBRARIES += iptables/libiptables.a
iptables_libiptables_a_SOURCES = \
	iptables/table/batch.c iptables/table/batch.h \
	iptables/host/bridge_port.c iptables/host/bridge_port.h \
	iptables/maps/capture.c iptables/maps/capture.h \
	iptables/maps/conntrack.c iptables/maps/conntrack.h iptables/maps/flow.c \
	iptables/maps/describe.c iptables/maps/describe.h \
	iptables/maps/divert.c iptables/maps/divert.h \
	iptables/table/elements.c iptables/table/elements.h \
	iptables/table/expr.c iptables/table/expr.h \
	iptables/host/iface.c iptables/host/iface.h \
	iptables/maps/kernelpath.c iptables/maps/kernelpath.h \
	iptables/maps/hairpin.c iptables/maps/hairpin.h \
	iptables/host/foreign.c iptables/host/foreign.h \
	iptables/iptables.c iptables/iptables.h iptables/iptables_private.h \
	iptables/iptables_report.c iptables/estate.c \
	iptables/maps/guard.c iptables/maps/guard.h \
	iptables/table/netlink.c iptables/table/netlink.h \
	iptables/host/others.c iptables/host/others.h \
	iptables/host/obstacles.c iptables/host/obstacles.h \
	iptables/maps/difference.c iptables/maps/difference.h \
	iptables/maps/frontends.c iptables/maps/frontends.h \
	iptables/maps/plan.c iptables/maps/plan.h \
	iptables/maps/probe.c iptables/maps/probe.h \
	iptables/host/reserve.c iptables/host/reserve.h \
	iptables/host/route.c iptables/host/route.h \
	iptables/maps/rules.c iptables/maps/rules.h

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/iptables/maps/divert_test tests/unit/iptables/frontends_test tests/unit/iptables/maps/plan_test tests/unit/iptables/maps/rules_test tests/unit/iptables/host/reserve_test tests/unit/iptables/iptables_test
TESTS += tests/unit/iptables/maps/divert_test tests/unit/iptables/frontends_test tests/unit/iptables/maps/plan_test tests/unit/iptables/maps/rules_test tests/unit/iptables/host/reserve_test tests/unit/iptables/iptables_test
endif
IPTABLES_TEST_LDADD = iptables/libiptables.a $(MODEL_LDADD) $(NFTNL_LIBS) $(MNL_LIBS) $(CMOCKA_LIBS)
tests_unit_iptables_maps_divert_test_SOURCES = tests/unit/iptables/maps/divert_test.c $(PATIENCE)
tests_unit_iptables_maps_divert_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_frontends_test_SOURCES = tests/unit/iptables/frontends_test.c
tests_unit_iptables_frontends_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_maps_plan_test_SOURCES = tests/unit/iptables/maps/plan_test.c
tests_unit_iptables_maps_plan_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_maps_rules_test_SOURCES = tests/unit/iptables/maps/rules_test.c
tests_unit_iptables_maps_rules_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_host_reserve_test_SOURCES = tests/unit/iptables/host/reserve_test.c
tests_unit_iptables_host_reserve_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_iptables_test_SOURCES = tests/unit/iptables/iptables_test.c $(PATIENCE)
tests_unit_iptables_iptables_test_LDADD = $(IPTABLES_TEST_LDADD)

FUZZERS += tests/fuzz/reserve_fuzz
tests_fuzz_reserve_fuzz_SOURCES = tests/fuzz/reserve_fuzz.c
tests_fuzz_reserve_fuzz_LDADD = iptables/libiptables.a $(MODEL_LDADD)
