noinst_LIBRARIES += src/libsrc.a
src_libsrc_a_SOURCES = \
	src/agent/agent_options.c src/agent/agent_options.h \
	src/common/service_state.c src/common/service_state.h \
	src/hub/hub_options.c src/hub/hub_options.h src/hub/hub_naming_options.c src/hub/hub_web_options.c \
	src/common/option_checks.c src/common/option_checks.h src/common/option_files.c src/common/option_files.h \
	src/common/check.c src/common/check.h \
	src/common/tracing_options.c src/common/tracing_options.h \
	src/common/confine.c src/common/confine.h \
	src/common/log_admin.c src/common/log_admin.h src/common/reload.c src/common/reload.h src/common/self.c src/common/self.h src/common/workers.c src/common/workers.h

sbin_PROGRAMS += edgeway-agent
if HUB
sbin_PROGRAMS += edgeway-hub
endif
bin_PROGRAMS += edgewayctl

edgeway_agent_SOURCES = \
	src/agent/agent.c src/agent/agent.h src/agent/agent_carrier.c src/agent/agent_private.h src/agent/agent_reload.c src/agent/agent_stop.c src/agent/agent_succeed.c \
	src/agent/agent_access.c src/agent/agent_admin.c src/agent/agent_checks.c src/agent/agent_checks.h src/agent/agent_checks_pods.c src/agent/agent_checks_peers.c src/agent/agent_checks_cloud.c src/agent/agent_findings.c src/agent/agent_main.c src/agent/agent_debug.c src/agent/agent_health.c src/agent/agent_health_ports.c src/agent/agent_mesh.c src/agent/agent_peers.c src/agent/agent_ready.c src/agent/agent_rings.c src/agent/agent_tracing.c src/agent/agent_tunnel.c \
	src/common/checks.c src/common/checks.h src/common/ctl_answer.c src/common/ctl_answer.h src/common/findings.c src/common/findings.h \
	src/agent/dns_selfcheck.c src/agent/dns_selfcheck.h src/agent/dns_selfcheck_frame.c src/agent/dns_selfcheck_frame.h src/agent/pod_canary.c src/agent/pod_canary.h src/common/handover.c src/common/handover.h src/common/limits.c src/common/limits.h src/common/lock.c src/common/lock.h src/agent/restore.c src/agent/restore.h \
	src/agent/rights.c src/agent/rights.h src/common/socket_store.c src/common/socket_store.h src/common/spawner.c src/common/spawner.h src/common/takeover.c src/common/takeover.h src/common/upgrade.c src/common/upgrade.h
edgeway_agent_LDADD = src/libsrc.a dns/libdns.a lb/liblb.a iptables/libiptables.a meta/libmeta.a tracing/libtracing.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(MODEL_LDADD) \
	$(MNL_LIBS) $(NFTNL_LIBS) $(SQLITE_LIBS)

edgeway_hub_SOURCES = src/hub/hub_main.c src/hub/hub_main_private.h src/hub/hub_succeed.c src/common/handover.c src/common/handover.h src/common/spawner.c src/common/spawner.h src/common/takeover.c src/common/takeover.h src/common/upgrade.c src/common/upgrade.h src/hub/hub_rights.c src/hub/hub_rights.h src/hub/hub_tracing.c src/hub/hub_tracing.h src/common/limits.c src/common/limits.h src/common/lock.c src/common/lock.h
edgeway_hub_LDADD = src/libsrc.a tracing/libtracing.a $(HUB_LDADD)

edgewayctl_SOURCES = src/ctl/ctl_main.c src/common/ctl_answer.c src/common/ctl_answer.h src/ctl/ctl_ask.c src/ctl/ctl_ask.h src/ctl/ctl_attempt.c src/ctl/ctl_attempt.h src/ctl/ctl_bundle.c src/ctl/ctl_bundle.h src/ctl/ctl_clean.c src/ctl/ctl_clean.h src/ctl/ctl_show.c src/ctl/ctl_show.h \
	src/ctl/ctl_doctor.c src/ctl/ctl_doctor.h src/ctl/ctl_doctor_disk.c src/ctl/ctl_doctor_hub.c src/ctl/ctl_doctor_machine.c src/ctl/ctl_doctor_machine.h src/ctl/ctl_doctor_parts.h src/ctl/ctl_doctor_view.c src/ctl/ctl_findings.c src/ctl/ctl_findings.h src/common/checks.c src/common/checks.h src/common/findings.c src/common/findings.h \
	src/ctl/ctl_hub_findings.c src/ctl/ctl_hub_findings.h \
	src/ctl/ctl_kernel.c src/ctl/ctl_kernel.h src/ctl/ctl_legacy.c src/ctl/ctl_legacy.h src/ctl/ctl_pods.c src/ctl/ctl_pods.h src/ctl/ctl_redact.c src/ctl/ctl_redact.h \
	src/ctl/ctl_machine.c src/ctl/ctl_machine.h src/ctl/ctl_resolve.c src/ctl/ctl_resolve.h src/ctl/ctl_run.c src/ctl/ctl_run.h src/ctl/ctl_screen.c src/ctl/ctl_screen.h src/ctl/ctl_trace.c src/ctl/ctl_status.c src/ctl/ctl_table.c src/ctl/ctl_table.h src/ctl/ctl_tap.c src/ctl/ctl_tap.h src/ctl/ctl_tar.c src/ctl/ctl_tar.h src/ctl/ctl_top.c src/ctl/ctl_top.h src/ctl/ctl_usage.c src/ctl/ctl_usage.h src/ctl/ctl_within.c src/ctl/ctl_within.h
edgewayctl_LDADD = $(MODEL_LDADD) -lresolv

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/src/agent/agent_checks_test tests/unit/src/common/service_state_test tests/unit/src/agent/dns_selfcheck_frame_test tests/unit/src/ctl/ctl_clean_test tests/unit/src/ctl/ctl_legacy_test tests/unit/src/ctl/ctl_redact_test tests/unit/src/common/handover_test tests/unit/src/common/option_files_test tests/unit/src/agent/options_test tests/unit/src/agent/pod_canary_test tests/unit/src/common/takeover_test tests/unit/src/common/workers_test
TESTS += tests/unit/src/agent/agent_checks_test tests/unit/src/common/service_state_test tests/unit/src/agent/dns_selfcheck_frame_test tests/unit/src/ctl/ctl_clean_test tests/unit/src/ctl/ctl_legacy_test tests/unit/src/ctl/ctl_redact_test tests/unit/src/common/handover_test tests/unit/src/common/option_files_test tests/unit/src/agent/options_test tests/unit/src/agent/pod_canary_test tests/unit/src/common/takeover_test tests/unit/src/common/workers_test
tests_unit_src_agent_dns_selfcheck_frame_test_SOURCES = tests/unit/src/agent/dns_selfcheck_frame_test.c src/agent/dns_selfcheck_frame.c src/agent/dns_selfcheck_frame.h
tests_unit_src_agent_dns_selfcheck_frame_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_src_agent_agent_checks_test_SOURCES = tests/unit/src/agent/agent_checks_test.c src/agent/agent_checks.c src/agent/agent_checks.h src/agent/agent_checks_pods.c src/agent/agent_checks_peers.c src/common/checks.c src/common/checks.h src/common/ctl_answer.c src/common/ctl_answer.h src/common/findings.c src/common/findings.h
tests_unit_src_agent_agent_checks_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_src_agent_pod_canary_test_SOURCES = tests/unit/src/agent/pod_canary_test.c src/agent/pod_canary.c src/agent/pod_canary.h src/agent/dns_selfcheck_frame.c src/agent/dns_selfcheck_frame.h $(CLOCK)
tests_unit_src_agent_pod_canary_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_src_common_service_state_test_SOURCES = tests/unit/src/common/service_state_test.c $(CLOCK)
tests_unit_src_common_service_state_test_LDADD = src/libsrc.a $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_src_ctl_ctl_clean_test_SOURCES = tests/unit/src/ctl/ctl_clean_test.c src/ctl/ctl_clean.c src/ctl/ctl_clean.h
tests_unit_src_ctl_ctl_clean_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_src_ctl_ctl_legacy_test_SOURCES = tests/unit/src/ctl/ctl_legacy_test.c src/ctl/ctl_legacy.c src/ctl/ctl_legacy.h
tests_unit_src_ctl_ctl_legacy_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_src_ctl_ctl_redact_test_SOURCES = tests/unit/src/ctl/ctl_redact_test.c src/ctl/ctl_redact.c src/ctl/ctl_redact.h
tests_unit_src_ctl_ctl_redact_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_src_common_handover_test_SOURCES = tests/unit/src/common/handover_test.c src/common/handover.c src/common/handover.h src/common/spawner.c src/common/spawner.h src/common/upgrade.c src/common/upgrade.h $(CLOCK)
tests_unit_src_common_handover_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_src_common_takeover_test_SOURCES = tests/unit/src/common/takeover_test.c src/common/lock.c src/common/lock.h src/common/takeover.c src/common/takeover.h
tests_unit_src_common_takeover_test_LDADD = dns/libdns.a lb/liblb.a $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_src_common_workers_test_SOURCES = tests/unit/src/common/workers_test.c
tests_unit_src_common_workers_test_LDADD = $(tests_unit_src_agent_options_test_LDADD)
tests_unit_src_common_workers_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_create
tests_unit_src_common_option_files_test_SOURCES = tests/unit/src/common/option_files_test.c
tests_unit_src_common_option_files_test_LDADD = $(tests_unit_src_agent_options_test_LDADD)
tests_unit_src_agent_options_test_SOURCES = tests/unit/src/agent/options_test.c
tests_unit_src_agent_options_test_LDADD = src/libsrc.a hub/libhub.a tracing/libtracing.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(MODEL_LDADD) $(CMOCKA_LIBS)
endif

FUZZERS += tests/fuzz/config_fuzz
tests_fuzz_config_fuzz_SOURCES = tests/fuzz/config_fuzz.c
tests_fuzz_config_fuzz_LDADD = src/libsrc.a hub/libhub.a tracing/libtracing.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(MODEL_LDADD)
