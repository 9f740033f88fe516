noinst_LIBRARIES += hub/libhub.a
hub_libhub_a_SOURCES = \
	hub/access.c hub/access.h \
	hub/admission.c hub/admission.h \
	hub/approvals.c hub/approvals.h hub/approvals_ask.c hub/approvals_private.h \
	hub/authority.c hub/authority.h \
	hub/bridge.c hub/bridge.h \
	hub/caller.c hub/caller.h \
	hub/carried.c hub/carried.h \
	hub/certs.c hub/certs.h \
	hub/claims.c hub/claims.h \
	hub/cloud.c hub/cloud.h \
	hub/csr.c hub/csr.h \
	hub/doors.c hub/doors.h \
	hub/detours.c hub/detours.h \
	hub/fanout.c hub/fanout.h \
	hub/flights.c hub/flights.h \
	hub/floods.c hub/floods.h \
	hub/follow.c hub/follow.h \
	hub/hello.c hub/hello.h \
	hub/hosts_map.c hub/hosts_map.h \
	hub/hosts_text.c hub/hosts_text.h \
	hub/https.c hub/https.h \
	hub/hub.c hub/hub.h hub/hub_access.c hub/hub_ask.c hub/hub_explain.c hub/hub_nodes.c hub/hub_peers.c hub/hub_private.h hub/hub_service.c hub/hub_source.c hub/hub_tell.c hub/hub_ways.c \
	hub/ingress.c hub/ingress.h \
	hub/inquiry.c hub/inquiry.h \
	hub/join.c hub/join.h \
	hub/joins.c hub/joins.h \
	hub/kube_api.c hub/kube_api.h \
	hub/kube_events.c hub/kube_events.h \
	hub/kubeconfig.c hub/kubeconfig.h \
	hub/kubernetes.c hub/kubernetes.h \
	hub/ledger.c hub/ledger.h \
	hub/list_file.c hub/list_file.h \
	hub/listen.c hub/listen.h \
	hub/manifest_file.c hub/manifest_file.h \
	hub/manifest_keep.c hub/manifest_keep.h \
	hub/manifests.c hub/manifests.h \
	hub/names.c hub/names.h \
	hub/naming.c hub/naming.h \
	hub/neighbours.c hub/neighbours.h hub/neighbours_find.c hub/neighbours_index.c hub/neighbours_private.h hub/neighbours_tell.c \
	hub/node_book.c hub/node_book.h \
	hub/node_sites.c hub/node_sites.h \
	hub/nodes.c hub/nodes.h hub/nodes_known.c hub/nodes_private.h hub/nodes_tell.c \
	hub/peek.c hub/peek.h \
	hub/peer_guest.c hub/peer_line.c hub/peer_names.c hub/peer_names.h hub/peer_ask.c hub/peer_trip.c hub/peer_words.c hub/peer_words.h \
	hub/peers.c hub/peers.h hub/peers_private.h hub/peers_tell.c \
	hub/presence.c hub/presence.h \
	hub/outbox.c hub/outbox.h \
	hub/outward.c hub/outward.h \
	hub/own_service.c hub/own_service.h \
	hub/pending.c hub/pending.h \
	hub/questions.c hub/questions.h \
	hub/quota.c hub/quota.h \
	hub/reach.c hub/reach.h \
	hub/redirect.c hub/redirect.h hub/redirect_private.h hub/redirect_rules.c hub/redirect_tell.c \
	hub/redirect_probe.c hub/redirect_probe.h \
	hub/refusals.c hub/refusals.h \
	hub/reflector.c hub/reflector.h hub/reflector_private.h hub/reflector_take.c \
	hub/revoked.c hub/revoked.h \
	hub/roll.c hub/roll.h \
	hub/roster.c hub/roster.h \
	hub/route.c hub/route.h \
	hub/secret.c hub/secret.h \
	hub/self_guard.c hub/self_guard.h \
	hub/share.c hub/share.h hub/share_ca.c hub/share_private.h \
	hub/share_claims.c hub/share_claims.h \
	hub/sight.c hub/sight.h \
	hub/split.c hub/split.h \
	hub/talk.c hub/talk.h hub/talk_ask.c hub/talk_compare.c hub/talk_private.h hub/talk_say.c hub/talk_tell.c \
	hub/tokens.c hub/tokens.h \
	hub/tunnels.c hub/tunnels.h hub/tunnels_private.h hub/tunnels_lost.c hub/tunnels_tell.c \
	hub/unserved.c hub/unserved.h \
	hub/udp_flow.c hub/udp_maps.c hub/udp_maps.h hub/udp_maps_private.h \
	hub/visit.c hub/visit.h hub/visit_exchange.c hub/visit_h2.c hub/visit_http.c hub/visit_tls.c hub/visit_trace.c hub/visit_where.c \
	hub/ways.c hub/ways.h hub/ways_beside.c hub/ways_callers.c hub/ways_judge.c hub/ways_private.h \
	hub/web.c hub/web.h hub/web_attention.c hub/web_conn.c hub/web_live.c hub/web_private.h \
	hub/web_dead.c hub/web_dead.h \
	hub/web_files.c hub/web_files.h \
	hub/web_judge.c hub/web_judge.h \
	hub/web_map.c hub/web_seen.c hub/web_tell.c hub/web_tell.h \
	hub/web_probe.c hub/web_probe.h \
	hub/web_summary.c hub/web_summary.h \
	hub/web_survey.c hub/web_survey.h \
	hub/web_want.c hub/web_want.h

# The page's files become lists of bytes that hub/web_files.c includes.
WEB_FILES = hub/web/index.html hub/web/style.css hub/web/app.js hub/web/draw.js hub/web/icon.svg
WEB_LISTS = hub/web/index.inc hub/web/style.inc hub/web/app.inc hub/web/draw.inc hub/web/icon.inc
EXTRA_DIST += $(WEB_FILES)
CLEANFILES += $(WEB_LISTS)
SUFFIXES += .html .css .js .svg .inc
LIST_BYTES = $(AM_V_GEN)$(MKDIR_P) hub/web && od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g' >$@.tmp && mv $@.tmp $@
hub/web_files.$(OBJEXT): $(WEB_LISTS)
.html.inc:
	$(LIST_BYTES)
.css.inc:
	$(LIST_BYTES)
.js.inc:
	$(LIST_BYTES)
.svg.inc:
	$(LIST_BYTES)

HUB_LDADD = hub/libhub.a dns/libdns.a iptables/libiptables.a tunnel/libtunnel.a $(NGHTTP2_LIBS) $(MODEL_LDADD) $(CURL_LIBS) $(NFTNL_LIBS) $(MNL_LIBS)
FUZZERS += tests/fuzz/hello_fuzz tests/fuzz/peer_fuzz tests/fuzz/split_fuzz tests/fuzz/web_fuzz
tests_fuzz_web_fuzz_SOURCES = tests/fuzz/web_fuzz.c
tests_fuzz_web_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_hello_fuzz_SOURCES = tests/fuzz/hello_fuzz.c
tests_fuzz_hello_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_peer_fuzz_SOURCES = tests/fuzz/peer_fuzz.c
tests_fuzz_peer_fuzz_LDADD = $(HUB_LDADD)
tests_fuzz_split_fuzz_SOURCES = tests/fuzz/split_fuzz.c
tests_fuzz_split_fuzz_LDADD = $(HUB_LDADD)
if HAVE_CMOCKA
HUB_TESTS = \
	tests/unit/access_test \
	tests/unit/certs_test \
	tests/unit/detours_test \
	tests/unit/hosts_text_test \
	tests/unit/hub_delivery_test \
	tests/unit/hub_join_test \
	tests/unit/hub_test \
	tests/unit/kubeconfig_test \
	tests/unit/approvals_test \
	tests/unit/link_forward_test \
	tests/unit/reach_test \
	tests/unit/link_test \
	tests/unit/manifests_test \
	tests/unit/neighbours_test \
	tests/unit/neighbours_index_test \
	tests/unit/nodes_test \
	tests/unit/peek_test \
	tests/unit/questions_test \
	tests/unit/quota_test \
	tests/unit/kube_events_test \
	tests/unit/reflector_test \
	tests/unit/presence_test \
	tests/unit/roster_test \
	tests/unit/self_guard_test \
	tests/unit/share_test \
	tests/unit/split_test \
	tests/unit/tokens_test \
	tests/unit/tunnels_tell_test \
	tests/unit/ways_test \
	tests/unit/web_test
check_PROGRAMS += $(HUB_TESTS)
TESTS += $(HUB_TESTS)
tests_unit_approvals_test_SOURCES = tests/unit/approvals_test.c $(CLOCK)
tests_unit_approvals_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_access_test_SOURCES = tests/unit/access_test.c
tests_unit_access_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_self_guard_test_SOURCES = tests/unit/self_guard_test.c
tests_unit_self_guard_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_web_test_SOURCES = tests/unit/web_test.c
tests_unit_web_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnels_tell_test_SOURCES = tests/unit/tunnels_tell_test.c
tests_unit_tunnels_tell_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_ways_test_SOURCES = tests/unit/ways_test.c tests/unit/kube_kit.c tests/unit/kube_kit.h
tests_unit_ways_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_detours_test_SOURCES = tests/unit/detours_test.c tests/unit/kube_kit.c tests/unit/kube_kit.h
tests_unit_detours_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hosts_text_test_SOURCES = tests/unit/hosts_text_test.c tests/unit/kube_kit.c tests/unit/kube_kit.h
tests_unit_hosts_text_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_certs_test_SOURCES = tests/unit/certs_test.c
tests_unit_certs_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_delivery_test_SOURCES = tests/unit/hub_delivery_test.c tests/unit/hub_bed.c tests/unit/hub_bed.h $(PATIENCE)
tests_unit_hub_delivery_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_join_test_SOURCES = tests/unit/hub_join_test.c tests/unit/hub_bed.c tests/unit/hub_bed.h $(PATIENCE)
tests_unit_hub_join_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_hub_test_SOURCES = tests/unit/hub_test.c tests/unit/hub_bed.c tests/unit/hub_bed.h $(PATIENCE)
tests_unit_hub_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_kubeconfig_test_SOURCES = tests/unit/kubeconfig_test.c
tests_unit_kubeconfig_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_reach_test_SOURCES = tests/unit/reach_test.c $(CLOCK)
tests_unit_reach_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_link_forward_test_SOURCES = tests/unit/link_forward_test.c tests/unit/link_bed.c tests/unit/link_bed.h $(CLOCK)
tests_unit_link_forward_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_link_test_SOURCES = tests/unit/link_test.c tests/unit/link_bed.c tests/unit/link_bed.h $(CLOCK)
tests_unit_link_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_link_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sock_rerouted
tests_unit_manifests_test_SOURCES = tests/unit/manifests_test.c $(CLOCK)
tests_unit_manifests_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_neighbours_index_test_SOURCES = tests/unit/neighbours_index_test.c tests/unit/kube_kit.c tests/unit/kube_kit.h
tests_unit_neighbours_index_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_neighbours_test_SOURCES = tests/unit/neighbours_test.c tests/unit/kube_kit.c tests/unit/kube_kit.h
tests_unit_neighbours_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_nodes_test_SOURCES = tests/unit/nodes_test.c $(PATIENCE)
tests_unit_nodes_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_peek_test_SOURCES = tests/unit/peek_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_peek_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_kube_events_test_SOURCES = tests/unit/kube_events_test.c tests/unit/api_bed.c tests/unit/api_bed.h $(CLOCK)
tests_unit_kube_events_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_reflector_test_SOURCES = tests/unit/reflector_test.c tests/unit/api_bed.c tests/unit/api_bed.h $(CLOCK)
tests_unit_reflector_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_presence_test_SOURCES = tests/unit/presence_test.c
tests_unit_presence_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_roster_test_SOURCES = tests/unit/roster_test.c
tests_unit_roster_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_share_test_SOURCES = tests/unit/share_test.c
tests_unit_share_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_questions_test_SOURCES = tests/unit/questions_test.c
tests_unit_questions_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_quota_test_SOURCES = tests/unit/quota_test.c
tests_unit_quota_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_split_test_SOURCES = tests/unit/split_test.c
tests_unit_split_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
tests_unit_tokens_test_SOURCES = tests/unit/tokens_test.c
tests_unit_tokens_test_LDADD = $(HUB_LDADD) $(CMOCKA_LIBS)
endif
EXTRA_DIST += tests/data/kubernetes tests/apiserver/kubelets.py tests/apiserver/objects.py tests/apiserver/server.py \
	tests/apiserver/signing.py tests/apiserver/store.py
