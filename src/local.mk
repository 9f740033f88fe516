noinst_LIBRARIES += src/libsrc.a
src_libsrc_a_SOURCES = \
	src/agent_options.c src/agent_options.h \
	src/announce.c src/announce.h \
	src/hub_options.c src/hub_options.h src/hub_naming_options.c src/hub_web_options.c \
	src/option_checks.c src/option_checks.h src/option_files.c src/option_files.h \
	src/check.c src/check.h \
	src/tracing_options.c src/tracing_options.h \
	src/confine.c src/confine.h \
	src/log_admin.c src/log_admin.h src/reload.c src/reload.h src/self.c src/self.h

sbin_PROGRAMS += edgeway-agent edgeway-hub
bin_PROGRAMS += edgewayctl

edgeway_agent_SOURCES = \
	src/agent.c src/agent.h src/agent_carrier.c src/agent_private.h src/agent_reload.c src/agent_stop.c src/agent_succeed.c \
	src/agent_access.c src/agent_admin.c src/agent_checks.c src/agent_checks.h src/agent_findings.c src/agent_main.c src/agent_debug.c src/agent_health.c src/agent_mesh.c src/agent_ready.c src/agent_tracing.c src/agent_tunnel.c \
	src/checks.c src/checks.h src/ctl_answer.c src/ctl_answer.h src/findings.c src/findings.h \
	src/canary.c src/canary.h src/canary_frame.c src/canary_frame.h src/pod_canary.c src/pod_canary.h src/handover.c src/handover.h src/limits.c src/limits.h src/lock.c src/lock.h src/restore.c src/restore.h \
	src/rights.c src/rights.h src/socket_store.c src/socket_store.h src/starter.c src/starter.h src/takeover.c src/takeover.h src/upgrade.c src/upgrade.h src/workers.c src/workers.h
edgeway_agent_LDADD = src/libsrc.a dns/libdns.a lb/liblb.a iptables/libiptables.a meta/libmeta.a tracing/libtracing.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(MODEL_LDADD) \
	$(MNL_LIBS) $(NFTNL_LIBS) $(SQLITE_LIBS)

edgeway_hub_SOURCES = src/hub_main.c src/hub_main_private.h src/hub_succeed.c src/handover.c src/handover.h src/starter.c src/starter.h src/takeover.c src/takeover.h src/upgrade.c src/upgrade.h src/hub_rights.c src/hub_rights.h src/hub_tracing.c src/hub_tracing.h src/limits.c src/limits.h src/lock.c src/lock.h
edgeway_hub_LDADD = src/libsrc.a tracing/libtracing.a $(HUB_LDADD)

edgewayctl_SOURCES = src/ctl_main.c src/ctl_answer.c src/ctl_answer.h src/ctl_ask.c src/ctl_ask.h src/ctl_attempt.c src/ctl_attempt.h src/ctl_bundle.c src/ctl_bundle.h src/ctl_clean.c src/ctl_clean.h src/ctl_show.c src/ctl_show.h \
	src/ctl_doctor.c src/ctl_doctor.h src/ctl_doctor_disk.c src/ctl_doctor_hub.c src/ctl_doctor_machine.c src/ctl_doctor_machine.h src/ctl_doctor_parts.h src/ctl_doctor_view.c src/ctl_findings.c src/ctl_findings.h src/checks.c src/checks.h src/findings.c src/findings.h \
	src/ctl_hub_findings.c src/ctl_hub_findings.h \
	src/ctl_kernel.c src/ctl_kernel.h src/ctl_legacy.c src/ctl_legacy.h src/ctl_pods.c src/ctl_pods.h src/ctl_redact.c src/ctl_redact.h \
	src/ctl_machine.c src/ctl_machine.h src/ctl_resolve.c src/ctl_resolve.h src/ctl_run.c src/ctl_run.h src/ctl_screen.c src/ctl_screen.h src/ctl_trace.c src/ctl_status.c src/ctl_table.c src/ctl_table.h src/ctl_tap.c src/ctl_tap.h src/ctl_tar.c src/ctl_tar.h src/ctl_top.c src/ctl_top.h src/ctl_usage.c src/ctl_usage.h
edgewayctl_LDADD = $(MODEL_LDADD) -lresolv

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/agent_checks_test tests/unit/announce_test tests/unit/canary_frame_test tests/unit/ctl_clean_test tests/unit/ctl_legacy_test tests/unit/ctl_redact_test tests/unit/handover_test tests/unit/option_files_test tests/unit/options_test tests/unit/pod_canary_test tests/unit/takeover_test
TESTS += tests/unit/agent_checks_test tests/unit/announce_test tests/unit/canary_frame_test tests/unit/ctl_clean_test tests/unit/ctl_legacy_test tests/unit/ctl_redact_test tests/unit/handover_test tests/unit/option_files_test tests/unit/options_test tests/unit/pod_canary_test tests/unit/takeover_test
tests_unit_canary_frame_test_SOURCES = tests/unit/canary_frame_test.c src/canary_frame.c src/canary_frame.h
tests_unit_canary_frame_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_agent_checks_test_SOURCES = tests/unit/agent_checks_test.c src/agent_checks.c src/agent_checks.h src/checks.c src/checks.h src/ctl_answer.c src/ctl_answer.h src/findings.c src/findings.h
tests_unit_agent_checks_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_pod_canary_test_SOURCES = tests/unit/pod_canary_test.c src/pod_canary.c src/pod_canary.h src/canary_frame.c src/canary_frame.h $(CLOCK)
tests_unit_pod_canary_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_announce_test_SOURCES = tests/unit/announce_test.c $(CLOCK)
tests_unit_announce_test_LDADD = src/libsrc.a $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_ctl_clean_test_SOURCES = tests/unit/ctl_clean_test.c src/ctl_clean.c src/ctl_clean.h
tests_unit_ctl_clean_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_ctl_legacy_test_SOURCES = tests/unit/ctl_legacy_test.c src/ctl_legacy.c src/ctl_legacy.h
tests_unit_ctl_legacy_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_ctl_redact_test_SOURCES = tests/unit/ctl_redact_test.c src/ctl_redact.c src/ctl_redact.h
tests_unit_ctl_redact_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_handover_test_SOURCES = tests/unit/handover_test.c src/handover.c src/handover.h src/starter.c src/starter.h src/upgrade.c src/upgrade.h $(CLOCK)
tests_unit_handover_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_takeover_test_SOURCES = tests/unit/takeover_test.c src/takeover.c src/takeover.h
tests_unit_takeover_test_LDADD = dns/libdns.a lb/liblb.a $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_option_files_test_SOURCES = tests/unit/option_files_test.c
tests_unit_option_files_test_LDADD = $(tests_unit_options_test_LDADD)
tests_unit_options_test_SOURCES = tests/unit/options_test.c
tests_unit_options_test_LDADD = src/libsrc.a hub/libhub.a tracing/libtracing.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(MODEL_LDADD) $(CMOCKA_LIBS)
endif

FUZZERS += tests/fuzz/config_fuzz
tests_fuzz_config_fuzz_SOURCES = tests/fuzz/config_fuzz.c
tests_fuzz_config_fuzz_LDADD = src/libsrc.a hub/libhub.a tracing/libtracing.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(MODEL_LDADD)
