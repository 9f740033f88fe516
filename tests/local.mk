# What is not a unit test of one folder: lints, fuzzers, namespace tests.

# --- fuzzers: with libFuzzer under --enable-fuzzing, else with a main that replays seeds ---------
if FUZZING
EXTRA_PROGRAMS += $(FUZZERS)
FUZZ_MAIN =
FUZZ_LIBS = -fsanitize=fuzzer
else
check_PROGRAMS += $(FUZZERS)
FUZZ_MAIN = tests/fuzz/libreplay.a
FUZZ_LIBS = tests/fuzz/libreplay.a
check_LIBRARIES += tests/fuzz/libreplay.a
tests_fuzz_libreplay_a_SOURCES = tests/fuzz/main.c
TESTS += tests/fuzz/replay.sh
tests/fuzz/replay.log: $(FUZZERS) $(wildcard $(top_srcdir)/tests/fuzz/corpus/*)
endif
# Target-specific, so that a fuzzer's own lines name nothing but its source and its folder's library.
$(FUZZERS): LIBS += $(FUZZ_LIBS)
$(FUZZERS): $(FUZZ_MAIN)

# make fuzz FUZZ_SECONDS=600   so long each
# make fuzz FUZZ_TOTAL=120     so long together, most where the code is new
FUZZ_SECONDS = 20
fuzz: $(FUZZERS)
	@top_srcdir='$(abs_top_srcdir)' /usr/bin/python3 $(srcdir)/tests/fuzz/run.py \
		$(if $(FUZZ_TOTAL),--total $(FUZZ_TOTAL),--each $(FUZZ_SECONDS)) $(FUZZERS)
.PHONY: fuzz

# Tests are run again when what they read has changed (make check RECHECK_LOGS=).
$(addprefix tests/unit/,$(addsuffix _test.log,cluster cluster_pod cluster_random detours hosts_text kube kube_rule neighbours neighbours_index reflector ways)): \
	$(wildcard $(top_srcdir)/tests/data/*/*)

# --- lints --------------------------------------------------------------------
if !EMULATED
TESTS += tests/lint/lint.py
endif

# --- namespace tests: root, Debian's pytest ---------------------------------------
check-net: all
	top_builddir='$(abs_top_builddir)' /usr/bin/python3 -m pytest -p no:cacheprovider -q $(srcdir)/tests/net
.PHONY: check-net

# --- Debian packages: root, debootstrap --------------------------------------------
check-packages:
	top_builddir='$(abs_top_builddir)' /usr/bin/python3 -m pytest -p no:cacheprovider -q $(srcdir)/tests/packages
.PHONY: check-packages
EXTRA_DIST += tests/packages/booted.py tests/packages/conftest.py tests/packages/edge.py tests/packages/test_image_build.py tests/packages/test_packages.py \
	tests/packages/test_systemd.py tests/packages/tree.py

AM_TESTS_ENVIRONMENT += FUZZERS='$(FUZZERS)'; export FUZZERS;
EXTRA_DIST += tests/run tests/driver tests/map tests/seen tests/pre-commit tests/emulate tests/emulated tests/fuzz/README.md tests/fuzz/replay.sh tests/fuzz/run.py tests/fuzz/corpus tests/lint/lint.py \
	tests/runner/changed.py tests/runner/plugin.py tests/runner/process.py tests/runner/results.py tests/runner/run.py \
	tests/runner/selftest.py tests/runner/stages.py \
	tests/net/backend.py tests/net/conftest.py tests/net/dnskit.py tests/net/engine.py tests/net/fixtures.py tests/net/lab.py tests/net/load.py \
	tests/net/tcpsend.py \
	tests/net/test_bad_input.py tests/net/test_crash.py tests/net/test_dns_attacks.py tests/net/test_dns_malformed.py tests/net/test_dns_table.py tests/net/test_docker.py tests/net/test_lb_failures.py tests/net/test_path.py \
	tests/net/test_pressure.py tests/net/test_resolv.py tests/net/test_resolv_kinds.py tests/net/test_stop.py tests/net/test_strangers.py
EXTRA_DIST += tests/net/test_capture.py tests/net/test_kernel_attacks.py tests/net/test_kernel_path.py tests/net/test_udp.py tests/net/test_udp_maps.py tests/net/udpsend.py
EXTRA_DIST += tests/net/test_dns_guests.py
EXTRA_DIST += tests/attacks tests/net/thief.py
EXTRA_DIST += tests/net/collector.py tests/net/otlp.py tests/net/otlp_reader.js tests/net/test_otlp.py tests/net/test_tracing.py tests/net/test_tracing_hub.py
EXTRA_DIST += tests/net/test_lb_policies.py tests/net/test_destination_rules.py
EXTRA_DIST += tests/net/kubetypes.py tests/net/npm.py tests/net/test_ctl_hostile.py tests/net/test_doctor_hub.py tests/net/test_edge_to_cloud_ipv6.py
EXTRA_DIST += tests/net/test_takeover.py tests/net/test_scrape.py tests/net/test_doctor.py tests/net/test_documents.py
EXTRA_DIST += tests/net/addrinfo.c tests/net/liar.py tests/net/test_dns_clients.py tests/net/test_upstreams.py
EXTRA_DIST += tests/net/hostile_corpus.py tests/net/hostile_http.py tests/net/hog.py tests/net/httpkit.py tests/net/test_http_hostile.py \
	tests/net/test_http_neighbours.py tests/net/test_http_rules.py
EXTRA_DIST += tests/net/test_sbom.py
EXTRA_DIST += tests/net/intruder.c tests/net/profiled.py tests/net/test_seccomp.py
EXTRA_DIST += tests/net/test_locality.py tests/net/test_pod_names.py
EXTRA_DIST += tests/net/ingress_town.py tests/net/pki.py tests/net/test_egress.py tests/net/test_ingress.py \
	tests/net/grpc_peer.py tests/net/kubelet.py tests/net/test_grpc.py tests/net/test_limits.py tests/net/test_redirect.py tests/net/test_reload.py tests/net/test_sni.py tests/net/test_carrier.py
EXTRA_DIST += tests/net/test_identity.py
EXTRA_DIST += tests/net/test_neighbour_liars.py tests/net/test_neighbour_replicas.py
EXTRA_DIST += tests/net/peer_liar.py tests/net/replicas.py tests/net/test_peers.py
EXTRA_DIST += tests/net/test_cloud_to_edge.py tests/net/test_edge_to_cloud.py tests/net/test_edge_to_cloud_udp.py tests/net/test_transfers.py tests/net/test_tunnel.py tests/net/test_tunnel_compress.py \
	tests/net/test_tunnel_faults.py tests/net/test_tunnel_hostile.py tests/net/test_tunnel_rules.py tests/net/test_tunnel_rotation.py tests/net/test_tunnel_again.py tests/net/tunnelkit.py
EXTRA_DIST += tests/net/test_neighbours.py tests/net/test_notify.py tests/net/test_offline.py
EXTRA_DIST += tests/net/test_hub_links.py tests/net/test_hub_proxy.py tests/net/test_privileges.py
EXTRA_DIST += tests/net/fleet.py tests/net/test_fanout.py tests/net/test_ctl.py
EXTRA_DIST += tests/net/cluster.py tests/net/helm.py tests/net/kubeschema.py tests/net/test_chart.py tests/net/test_deploy.py tests/net/test_image.py tests/net/test_monitoring.py
EXTRA_DIST += tests/net/egress_client.py tests/net/kubestreams.py tests/net/many.py tests/net/splice.py tests/net/test_kubectl.py tests/net/test_kubelet_doors.py
EXTRA_DIST += tests/net/cloudhub.py tests/net/cloudhub_pki.py tests/net/test_cloudhub.py

# --- hub and agents against a scripted world: EDGEWAY_SEEDS says how many histories ---------------
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/converge_test
TESTS += tests/unit/converge_test
tests_unit_converge_test_SOURCES = tests/unit/converge_test.c tests/fake/net.c tests/fake/net.h
tests_unit_converge_test_LDADD = hub/libhub.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(META_LDADD) $(CMOCKA_LIBS)
tests_unit_converge_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mono_ms -Wl,--wrap=wall_ms -Wl,--wrap=random_bytes

# --- objects of all shapes, from the API server's bytes to an agent's snapshot: EDGEWAY_OBJECTS says how many ---
check_PROGRAMS += tests/unit/objects_random_test
TESTS += tests/unit/objects_random_test
tests_unit_objects_random_test_SOURCES = tests/unit/objects_random_test.c tests/fake/net.c tests/fake/net.h
tests_unit_objects_random_test_LDADD = $(tests_unit_converge_test_LDADD)
tests_unit_objects_random_test_LDFLAGS = $(tests_unit_converge_test_LDFLAGS)
endif
