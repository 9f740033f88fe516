if HUB
noinst_LIBRARIES += hub/libhub.a
endif
hub_libhub_a_SOURCES = \
	hub/port/acl.c hub/port/acl.h \
	hub/sync/admission.c hub/sync/admission.h \
	hub/sync/sync_gate.c hub/sync/sync_gate.h \
	hub/identity/approvals.c hub/identity/approvals.h hub/identity/approvals_ask.c hub/identity/approvals_private.h \
	hub/identity/authority.c hub/identity/authority.h \
	hub/ingress/bridge_worker.c hub/ingress/bridge_worker.h \
	hub/ingress/tls_bridge.c hub/ingress/tls_bridge.h \
	hub/port/caller.c hub/port/caller.h \
	hub/port/ws_accept.c hub/port/ws_accept.h \
	hub/identity/certs.c hub/identity/certs.h \
	hub/manifests/claims.c hub/manifests/claims.h \
	hub/routing/local_dial.c hub/routing/local_dial.h \
	hub/identity/csr.c hub/identity/csr.h \
	hub/ingress/listeners.c hub/ingress/listeners.h \
	hub/ingress/redirect_targets.c hub/ingress/redirect_targets.h \
	hub/sync/fanout.c hub/sync/fanout.h \
	hub/sync/inflight.c hub/sync/inflight.h \
	hub/kube/follow.c hub/kube/follow.h \
	hub/port/client_hello.c hub/port/client_hello.h \
	hub/names/hosts_map.c hub/names/hosts_map.h \
	hub/names/hosts_text.c hub/names/hosts_text.h \
	hub/kube/https.c hub/kube/https.h \
	hub/hub.c hub/hub.h hub/hub_access.c hub/hub_ask.c hub/hub_disk.c hub/hub_explain.c hub/hub_gateway.c hub/hub_nodes.c hub/hub_peers.c hub/hub_private.h hub/hub_service.c hub/hub_source.c hub/hub_tell.c hub/hub_ways.c \
	hub/ingress/ingress.c hub/ingress/ingress.h \
	hub/routing/neighbour_query.c hub/routing/neighbour_query.h \
	hub/identity/join.c hub/identity/join.h \
	hub/identity/joins.c hub/identity/joins.h \
	hub/kube/kube_api.c hub/kube/kube_api.h \
	hub/kube/kube_events.c hub/kube/kube_events.h \
	hub/kube/kubeconfig.c hub/kube/kubeconfig.h \
	hub/kube/lease.c hub/kube/lease.h \
	hub/kube/route_conditions.c hub/kube/route_conditions.h \
	hub/kube/ca_maps.c hub/kube/ca_maps.h \
	hub/kube/route_status.c hub/kube/route_status.h \
	hub/kube/kubernetes.c hub/kube/kubernetes.h \
	hub/identity/ledger.c hub/identity/ledger.h hub/identity/ledger_give.c hub/identity/ledger_private.h \
	hub/identity/list_file.c hub/identity/list_file.h \
	hub/identity/record_writer.c hub/identity/record_writer.h \
	hub/port/listen.c hub/port/listen.h \
	hub/manifests/manifest_file.c hub/manifests/manifest_file.h \
	hub/manifests/manifest_keep.c hub/manifests/manifest_keep.h \
	hub/manifests/manifests.c hub/manifests/manifests.h \
	hub/kube/names.c hub/kube/names.h \
	hub/names/naming.c hub/names/naming.h \
	hub/routing/neighbours.c hub/routing/neighbours.h hub/routing/neighbours_find.c hub/routing/neighbours_index.c hub/routing/neighbours_private.h hub/routing/neighbours_tell.c \
	hub/sync/node_book.c hub/sync/node_book.h \
	hub/sync/node_sites.c hub/sync/node_sites.h \
	hub/sync/nodes.c hub/sync/nodes.h hub/sync/nodes_known.c hub/sync/nodes_private.h hub/sync/nodes_tell.c \
	hub/port/alpn_mux.c hub/port/alpn_mux.h \
	hub/replicas/peer_server.c hub/replicas/peer_client.c hub/replicas/peer_names.c hub/replicas/peer_names.h hub/replicas/peer_query.c hub/replicas/peer_forward.c hub/port/peer_proto.c hub/port/peer_proto.h \
	hub/replicas/peers.c hub/replicas/peers.h hub/replicas/peers_private.h hub/replicas/peers_tell.c \
	hub/port/presence.c hub/port/presence.h \
	hub/port/twins.c hub/port/twins.h \
	hub/sync/outbox.c hub/sync/outbox.h \
	hub/ingress/egress.c hub/ingress/egress.h \
	hub/identity/own_service.c hub/identity/own_service.h \
	hub/sync/pending.c hub/sync/pending.h \
	hub/port/questions.c hub/port/questions.h \
	hub/port/grant.c hub/port/grant.h \
	hub/port/quota.c hub/port/quota.h \
	hub/routing/connector.c hub/routing/connector.h hub/routing/connector_private.h hub/routing/connector_reuse.c hub/routing/stream_pool.c hub/routing/stream_pool.h \
	hub/ingress/redirect.c hub/ingress/redirect.h hub/ingress/redirect_private.h hub/ingress/redirect_rules.c hub/ingress/redirect_tell.c \
	hub/ingress/redirect_probe.c hub/ingress/redirect_probe.h \
	hub/port/refusals.c hub/port/refusals.h \
	hub/kube/reflector.c hub/kube/reflector.h hub/kube/reflector_private.h hub/kube/reflector_take.c \
	hub/identity/records.c hub/identity/records.h \
	hub/identity/registry.c hub/identity/registry.h \
	hub/identity/revoked.c hub/identity/revoked.h \
	hub/identity/name_archive.c hub/identity/name_archive.h \
	hub/replicas/relay_worker.c hub/replicas/relay_worker.h \
	hub/replicas/tunnel_crossing.c hub/replicas/tunnel_session.c hub/replicas/tunnel_session.h hub/replicas/tunnel_session_private.h \
	hub/replicas/tunnel_directory.c hub/replicas/tunnel_directory.h \
	hub/replicas/rendezvous.c hub/replicas/rendezvous.h \
	hub/port/route.c hub/port/route.h \
	hub/kube/secret.c hub/kube/secret.h \
	hub/port/self_guard.c hub/port/self_guard.h \
	hub/identity/share.c hub/identity/share.h hub/identity/share_ca.c hub/identity/share_private.h \
	hub/identity/share_claims.c hub/identity/share_claims.h \
	hub/sync/node_filter.c hub/sync/node_filter.h \
	hub/kube/json_stream.c hub/kube/json_stream.h \
	hub/sync/node_session.c hub/sync/node_session.h hub/sync/node_session_ask.c hub/sync/node_session_compare.c hub/sync/node_session_pods.c hub/sync/node_session_private.h hub/sync/node_session_say.c hub/sync/node_session_tell.c \
	hub/identity/tokens.c hub/identity/tokens.h \
	hub/replicas/tunnels.c hub/replicas/tunnels.h hub/replicas/tunnels_private.h hub/replicas/tunnels_lost.c hub/replicas/tunnels_tell.c \
	hub/sync/unserved.c hub/sync/unserved.h \
	hub/ingress/udp_flow.c hub/ingress/udp_maps.c hub/ingress/udp_maps.h hub/ingress/udp_maps_private.h \
	hub/ingress/client_conn.c hub/ingress/client_conn.h hub/ingress/client_conn_exchange.c hub/ingress/client_conn_h2.c hub/ingress/client_conn_http.c hub/ingress/client_conn_tls.c hub/ingress/client_conn_trace.c \
	hub/routing/routes.c hub/routing/routes.h hub/routing/routes_beside.c hub/routing/routes_callers.c hub/routing/routes_judge.c hub/routing/routes_private.h \
	hub/page/web.c hub/page/web.h hub/page/web_attention.c hub/page/web_conn.c hub/page/web_live.c hub/page/web_private.h \
	hub/page/web_dead.c hub/page/web_dead.h \
	hub/page/web_files.c hub/page/web_files.h \
	hub/page/web_judge.c hub/page/web_judge.h \
	hub/page/web_map.c hub/page/web_seen.c hub/page/web_tell.c hub/page/web_tell.h \
	hub/page/web_probe.c hub/page/web_probe.h \
	hub/page/web_summary.c hub/page/web_summary.h \
	hub/page/web_survey.c hub/page/web_survey.h \
	hub/page/web_want.c hub/page/web_want.h

# The page's files become lists of bytes that hub/page/web_files.c includes.
WEB_FILES = hub/page/web/index.html hub/page/web/style.css hub/page/web/app.js hub/page/web/draw.js hub/page/web/icon.svg
WEB_LISTS = hub/page/web/index.inc hub/page/web/style.inc hub/page/web/app.inc hub/page/web/draw.inc hub/page/web/icon.inc
EXTRA_DIST += $(WEB_FILES)
CLEANFILES += $(WEB_LISTS)
SUFFIXES += .html .css .js .svg .inc
LIST_BYTES = $(AM_V_GEN)$(MKDIR_P) hub/page/web && od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g' >$@.tmp && mv $@.tmp $@
hub/page/web_files.$(OBJEXT): $(WEB_LISTS)
.html.inc:
	$(LIST_BYTES)
.css.inc:
	$(LIST_BYTES)
.js.inc:
	$(LIST_BYTES)
.svg.inc:
	$(LIST_BYTES)

HUB_LDADD = hub/libhub.a dns/libdns.a iptables/libiptables.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(MODEL_LDADD) $(CURL_LIBS) $(NFTNL_LIBS) $(MNL_LIBS)
FUZZERS += tests/fuzz/csr_fuzz tests/fuzz/hello_fuzz tests/fuzz/hosts_fuzz tests/fuzz/manifest_fuzz tests/fuzz/peer_fuzz tests/fuzz/registry_fuzz tests/fuzz/split_fuzz tests/fuzz/web_fuzz
tests_fuzz_web_fuzz_SOURCES = tests/fuzz/web_fuzz.c
tests_fuzz_web_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_csr_fuzz_SOURCES = tests/fuzz/csr_fuzz.c
tests_fuzz_csr_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_hosts_fuzz_SOURCES = tests/fuzz/hosts_fuzz.c
tests_fuzz_hosts_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_manifest_fuzz_SOURCES = tests/fuzz/manifest_fuzz.c
tests_fuzz_manifest_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_registry_fuzz_SOURCES = tests/fuzz/registry_fuzz.c
tests_fuzz_registry_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_hello_fuzz_SOURCES = tests/fuzz/hello_fuzz.c
tests_fuzz_hello_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_peer_fuzz_SOURCES = tests/fuzz/peer_fuzz.c
tests_fuzz_peer_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_split_fuzz_SOURCES = tests/fuzz/split_fuzz.c
tests_fuzz_split_fuzz_LDADD = $(HUB_LDADD)
if HAVE_CMOCKA
HUB_TESTS = \
	tests/unit/hub/port/acl_test \
	tests/unit/hub/identity/certs_test \
	tests/unit/hub/identity/certs_disk_test \
	tests/unit/hub/identity/record_writer_test \
	tests/unit/hub/ingress/bridge_worker_test \
	tests/unit/hub/ingress/client_conn_exchange_test \
	tests/unit/hub/replicas/tunnel_session_test \
	tests/unit/hub/replicas/tunnel_session_limits_test \
	tests/unit/hub/replicas/peers_memory_test \
	tests/unit/hub/replicas/tunnel_session_forward_test \
	tests/unit/hub/replicas/tunnel_session_pairs_test \
	tests/unit/hub/ingress/redirect_targets_test \
	tests/unit/hub/names/hosts_text_test \
	tests/unit/hub/sync/hub_delivery_test \
	tests/unit/hub/hub_ask_test \
	tests/unit/hub/hub_join_test \
	tests/unit/hub/sync/hub_test \
	tests/unit/hub/kube/kubeconfig_test \
	tests/unit/hub/kube/lease_test \
	tests/unit/hub/kube/route_conditions_test \
	tests/unit/hub/kube/route_status_test \
	tests/unit/hub/identity/approvals_test \
	tests/unit/tunnel/node/tunnel_client_forward_test \
	tests/unit/hub/routing/connector_test \
	tests/unit/hub/routing/local_dial_test \
	tests/unit/tunnel/node/tunnel_client_test \
	tests/unit/hub/manifests/manifests_test \
	tests/unit/hub/manifests/manifests_written_test \
	tests/unit/hub/routing/neighbours_test \
	tests/unit/hub/routing/neighbour_query_test \
	tests/unit/hub/routing/neighbours_index_test \
	tests/unit/hub/sync/nodes_test \
	tests/unit/hub/port/alpn_mux_test \
	tests/unit/hub/sync/sync_gate_test \
	tests/unit/hub/port/questions_test \
	tests/unit/hub/port/grant_test \
	tests/unit/hub/port/quota_test \
	tests/unit/hub/kube/kube_events_test \
	tests/unit/hub/kube/reflector_test \
	tests/unit/hub/port/presence_test \
	tests/unit/hub/port/twins_test \
	tests/unit/hub/replicas/tunnel_directory_test \
	tests/unit/hub/port/self_guard_test \
	tests/unit/hub/identity/share_test \
	tests/unit/hub/identity/archives_test \
	tests/unit/hub/kube/json_stream_test \
	tests/unit/hub/identity/tokens_test \
	tests/unit/hub/replicas/tunnels_tell_test \
	tests/unit/hub/routing/routes_pod_test \
	tests/unit/hub/routing/routes_test \
	tests/unit/hub/routing/routes_judge_test \
	tests/unit/hub/routing/stream_pool_test \
	tests/unit/hub/page/web_test
check_PROGRAMS += $(HUB_TESTS)
TESTS += $(HUB_TESTS)
tests_unit_hub_identity_approvals_test_SOURCES = tests/unit/hub/identity/approvals_test.c $(CLOCK)
tests_unit_hub_identity_approvals_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_port_acl_test_SOURCES = tests/unit/hub/port/acl_test.c
tests_unit_hub_port_acl_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_routing_local_dial_test_SOURCES = tests/unit/hub/routing/local_dial_test.c
tests_unit_hub_routing_local_dial_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_routing_local_dial_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=self_guard_refuses -Wl,--wrap=fair_share_new
tests_unit_hub_routing_neighbour_query_test_SOURCES = tests/unit/hub/routing/neighbour_query_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_hub_routing_neighbour_query_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_routing_neighbour_query_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tunnels_open
tests_unit_hub_port_self_guard_test_SOURCES = tests/unit/hub/port/self_guard_test.c
tests_unit_hub_port_self_guard_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_page_web_test_SOURCES = tests/unit/hub/page/web_test.c
tests_unit_hub_page_web_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_replicas_tunnels_tell_test_SOURCES = tests/unit/hub/replicas/tunnels_tell_test.c
tests_unit_hub_replicas_tunnels_tell_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
ROUTES_BED = tests/unit/hub/routing/routes_bed.c tests/unit/hub/routing/routes_bed.h tests/unit/model/kube_kit.c tests/unit/model/kube_kit.h
tests_unit_hub_routing_routes_test_SOURCES = tests/unit/hub/routing/routes_test.c $(ROUTES_BED)
tests_unit_hub_routing_routes_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_routing_routes_pod_test_SOURCES = tests/unit/hub/routing/routes_pod_test.c $(ROUTES_BED) $(CLOCK)
tests_unit_hub_routing_routes_pod_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_routing_routes_judge_test_SOURCES = tests/unit/hub/routing/routes_judge_test.c $(ROUTES_BED)
tests_unit_hub_routing_routes_judge_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_ingress_bridge_worker_test_SOURCES = tests/unit/hub/ingress/bridge_worker_test.c $(WORKERS_BED) $(PATIENCE)
tests_unit_hub_ingress_bridge_worker_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_ingress_client_conn_exchange_test_SOURCES = tests/unit/hub/ingress/client_conn_exchange_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_hub_ingress_client_conn_exchange_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_ingress_client_conn_exchange_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=connector_finish
TUNNEL_SESSION_BED = tests/unit/hub/replicas/tunnel_session_bed.c tests/unit/hub/replicas/tunnel_session_bed.h $(WORKERS_BED) $(PATIENCE)
tests_unit_hub_replicas_tunnel_session_test_SOURCES = tests/unit/hub/replicas/tunnel_session_test.c $(TUNNEL_SESSION_BED)
tests_unit_hub_replicas_tunnel_session_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_replicas_peers_memory_test_SOURCES = tests/unit/hub/replicas/peers_memory_test.c
tests_unit_hub_replicas_peers_memory_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_replicas_peers_memory_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tunnels_open
tests_unit_hub_replicas_tunnel_session_forward_test_SOURCES = tests/unit/hub/replicas/tunnel_session_forward_test.c $(TUNNEL_SESSION_BED)
tests_unit_hub_replicas_tunnel_session_forward_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_replicas_tunnel_session_pairs_test_SOURCES = tests/unit/hub/replicas/tunnel_session_pairs_test.c $(TUNNEL_SESSION_BED)
tests_unit_hub_replicas_tunnel_session_pairs_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_replicas_tunnel_session_limits_test_SOURCES = tests/unit/hub/replicas/tunnel_session_limits_test.c $(TUNNEL_SESSION_BED)
tests_unit_hub_replicas_tunnel_session_limits_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_ingress_redirect_targets_test_SOURCES = tests/unit/hub/ingress/redirect_targets_test.c tests/unit/model/kube_kit.c tests/unit/model/kube_kit.h
tests_unit_hub_ingress_redirect_targets_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_names_hosts_text_test_SOURCES = tests/unit/hub/names/hosts_text_test.c tests/unit/model/kube_kit.c tests/unit/model/kube_kit.h
tests_unit_hub_names_hosts_text_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
CERTS_BED = tests/unit/hub/identity/certs_bed.c tests/unit/hub/identity/certs_bed.h
tests_unit_hub_identity_certs_test_SOURCES = tests/unit/hub/identity/certs_test.c $(CERTS_BED)
tests_unit_hub_identity_certs_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_identity_certs_disk_test_SOURCES = tests/unit/hub/identity/certs_disk_test.c $(CERTS_BED) $(PATIENCE)
tests_unit_hub_identity_certs_disk_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_sync_hub_delivery_test_SOURCES = tests/unit/hub/sync/hub_delivery_test.c tests/unit/hub/hub_bed.c tests/unit/hub/hub_bed.h $(PATIENCE)
tests_unit_hub_sync_hub_delivery_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_hub_join_test_SOURCES = tests/unit/hub/hub_join_test.c tests/unit/hub/hub_bed.c tests/unit/hub/hub_bed.h $(PATIENCE)
tests_unit_hub_hub_join_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_hub_ask_test_SOURCES = tests/unit/hub/hub_ask_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_hub_hub_ask_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_hub_ask_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tunnels_open
tests_unit_hub_sync_hub_test_SOURCES = tests/unit/hub/sync/hub_test.c tests/unit/hub/hub_bed.c tests/unit/hub/hub_bed.h $(PATIENCE)
tests_unit_hub_sync_hub_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_kube_route_status_test_SOURCES = tests/unit/hub/kube/route_status_test.c tests/unit/hub/kube/api_bed.c tests/unit/hub/kube/api_bed.h $(CLOCK)
tests_unit_hub_kube_route_status_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_kube_lease_test_SOURCES = tests/unit/hub/kube/lease_test.c tests/unit/hub/kube/api_bed.c tests/unit/hub/kube/api_bed.h $(CLOCK)
tests_unit_hub_kube_lease_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_kube_route_conditions_test_SOURCES = tests/unit/hub/kube/route_conditions_test.c
tests_unit_hub_kube_route_conditions_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_kube_kubeconfig_test_SOURCES = tests/unit/hub/kube/kubeconfig_test.c
tests_unit_hub_kube_kubeconfig_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_routing_connector_test_SOURCES = tests/unit/hub/routing/connector_test.c tests/unit/hub/routing/connector_bed.c tests/unit/hub/routing/connector_bed.h $(CLOCK)
tests_unit_hub_routing_connector_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_routing_stream_pool_test_SOURCES = tests/unit/hub/routing/stream_pool_test.c $(CLOCK)
tests_unit_hub_routing_stream_pool_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_tunnel_client_forward_test_SOURCES = tests/unit/tunnel/node/tunnel_client_forward_test.c tests/unit/tunnel/node/tunnel_client_bed.c tests/unit/tunnel/node/tunnel_client_bed.h $(CLOCK)
tests_unit_tunnel_node_tunnel_client_forward_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_tunnel_client_test_SOURCES = tests/unit/tunnel/node/tunnel_client_test.c tests/unit/tunnel/node/tunnel_client_bed.c tests/unit/tunnel/node/tunnel_client_bed.h $(CLOCK)
tests_unit_tunnel_node_tunnel_client_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_tunnel_client_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sock_rerouted
tests_unit_hub_manifests_manifests_written_test_SOURCES = tests/unit/hub/manifests/manifests_written_test.c $(CLOCK)
tests_unit_hub_manifests_manifests_written_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_manifests_manifests_test_SOURCES = tests/unit/hub/manifests/manifests_test.c $(CLOCK)
tests_unit_hub_manifests_manifests_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_routing_neighbours_index_test_SOURCES = tests/unit/hub/routing/neighbours_index_test.c tests/unit/model/kube_kit.c tests/unit/model/kube_kit.h
tests_unit_hub_routing_neighbours_index_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_routing_neighbours_test_SOURCES = tests/unit/hub/routing/neighbours_test.c tests/unit/model/kube_kit.c tests/unit/model/kube_kit.h
tests_unit_hub_routing_neighbours_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_sync_sync_gate_test_SOURCES = tests/unit/hub/sync/sync_gate_test.c
tests_unit_hub_sync_sync_gate_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_sync_nodes_test_SOURCES = tests/unit/hub/sync/nodes_test.c $(PATIENCE)
tests_unit_hub_sync_nodes_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_port_alpn_mux_test_SOURCES = tests/unit/hub/port/alpn_mux_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_hub_port_alpn_mux_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_kube_kube_events_test_SOURCES = tests/unit/hub/kube/kube_events_test.c tests/unit/hub/kube/api_bed.c tests/unit/hub/kube/api_bed.h $(CLOCK)
tests_unit_hub_kube_kube_events_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_kube_reflector_test_SOURCES = tests/unit/hub/kube/reflector_test.c tests/unit/hub/kube/api_bed.c tests/unit/hub/kube/api_bed.h $(CLOCK)
tests_unit_hub_kube_reflector_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_port_twins_test_SOURCES = tests/unit/hub/port/twins_test.c
tests_unit_hub_port_twins_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_port_presence_test_SOURCES = tests/unit/hub/port/presence_test.c
tests_unit_hub_port_presence_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_replicas_tunnel_directory_test_SOURCES = tests/unit/hub/replicas/tunnel_directory_test.c
tests_unit_hub_replicas_tunnel_directory_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_identity_archives_test_SOURCES = tests/unit/hub/identity/archives_test.c
tests_unit_hub_identity_archives_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_identity_share_test_SOURCES = tests/unit/hub/identity/share_test.c
tests_unit_hub_identity_share_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_port_questions_test_SOURCES = tests/unit/hub/port/questions_test.c
tests_unit_hub_port_questions_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_port_grant_test_SOURCES = tests/unit/hub/port/grant_test.c
tests_unit_hub_port_grant_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_port_quota_test_SOURCES = tests/unit/hub/port/quota_test.c
tests_unit_hub_port_quota_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_kube_json_stream_test_SOURCES = tests/unit/hub/kube/json_stream_test.c
tests_unit_hub_kube_json_stream_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_identity_record_writer_test_SOURCES = tests/unit/hub/identity/record_writer_test.c
tests_unit_hub_identity_record_writer_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_identity_record_writer_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=file_replace -Wl,--wrap=pthread_create
tests_unit_hub_identity_tokens_test_SOURCES = tests/unit/hub/identity/tokens_test.c
tests_unit_hub_identity_tokens_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
endif
EXTRA_DIST += tests/data/kubernetes tests/apiserver/kubelets.py tests/apiserver/objects.py tests/apiserver/server.py \
	tests/apiserver/signing.py tests/apiserver/store.py
