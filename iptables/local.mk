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
	iptables/host/multipath.c iptables/host/multipath.h \
	iptables/host/own_interface.c iptables/host/own_interface.h \
	iptables/maps/kernelpath.c iptables/maps/kernelpath.h \
	iptables/maps/hairpin.c iptables/maps/hairpin.h \
	iptables/host/held_ports.c iptables/host/held_ports.h \
	iptables/host/kubeproxy.c iptables/host/kubeproxy.h \
	iptables/iptables.c iptables/iptables.h iptables/iptables_private.h \
	iptables/iptables_ranges.c iptables/iptables_report.c iptables/handover.c \
	iptables/maps/guard.c iptables/maps/guard.h \
	iptables/table/netlink.c iptables/table/netlink.h \
	iptables/host/hook_conflicts.c iptables/host/hook_conflicts.h \
	iptables/host/preflight.c iptables/host/preflight.h \
	iptables/maps/external.c iptables/maps/external.h \
	iptables/maps/difference.c iptables/maps/difference.h \
	iptables/maps/service_maps.c iptables/maps/service_maps.h \
	iptables/maps/slots.c iptables/maps/slots.h \
	iptables/maps/probe.c iptables/maps/probe.h \
	iptables/host/reserve.c iptables/host/reserve.h \
	iptables/host/route.c iptables/host/route.h \
	iptables/maps/rules.c iptables/maps/rules.h

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/iptables/maps/divert_test tests/unit/iptables/service_maps_test tests/unit/iptables/maps/slots_test tests/unit/iptables/maps/rules_test tests/unit/iptables/host/reserve_test tests/unit/iptables/iptables_test
TESTS += tests/unit/iptables/maps/divert_test tests/unit/iptables/service_maps_test tests/unit/iptables/maps/slots_test tests/unit/iptables/maps/rules_test tests/unit/iptables/host/reserve_test tests/unit/iptables/iptables_test
endif
IPTABLES_TEST_LDADD = iptables/libiptables.a $(MODEL_LDADD) $(NFTNL_LIBS) $(MNL_LIBS) $(CMOCKA_LIBS)
tests_unit_iptables_maps_divert_test_SOURCES = tests/unit/iptables/maps/divert_test.c $(PATIENCE)
tests_unit_iptables_maps_divert_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_service_maps_test_SOURCES = tests/unit/iptables/service_maps_test.c $(PATIENCE)
tests_unit_iptables_service_maps_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_maps_slots_test_SOURCES = tests/unit/iptables/maps/slots_test.c
tests_unit_iptables_maps_slots_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_maps_rules_test_SOURCES = tests/unit/iptables/maps/rules_test.c
tests_unit_iptables_maps_rules_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_host_reserve_test_SOURCES = tests/unit/iptables/host/reserve_test.c
tests_unit_iptables_host_reserve_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_iptables_test_SOURCES = tests/unit/iptables/iptables_test.c $(CLOCK)
tests_unit_iptables_iptables_test_LDADD = $(IPTABLES_TEST_LDADD)
tests_unit_iptables_iptables_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=nl_batch

FUZZERS += tests/fuzz/reserve_fuzz
tests_fuzz_reserve_fuzz_SOURCES = tests/fuzz/reserve_fuzz.c
tests_fuzz_reserve_fuzz_LDADD = iptables/libiptables.a $(MODEL_LDADD)
