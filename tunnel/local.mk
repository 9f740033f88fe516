noinst_LIBRARIES += tunnel/libtunnel.a
tunnel_libtunnel_a_SOURCES = \
	tunnel/node/tunnel_acl.c tunnel/node/tunnel_acl.h \
	tunnel/udp/capsule.c tunnel/udp/capsule.h \
	tunnel/h2/chain.c tunnel/h2/chain.h \
	tunnel/node/agent_query.c tunnel/node/agent_query.h \
	tunnel/node/reachability.c tunnel/node/reachability.h \
	tunnel/udp/dgram.c tunnel/udp/dgram.h \
	tunnel/udp/stream_join.c tunnel/udp/stream_join.h \
	tunnel/udp/flows.c tunnel/udp/flows.h \
	tunnel/node/egress_client.c tunnel/node/egress_client.h \
	tunnel/node/floods.c tunnel/node/floods.h \
	tunnel/node/node_door.c tunnel/node/node_door.h tunnel/node/node_peers.c tunnel/node/node_peers.h \
	tunnel/node/egress_client_udp.c tunnel/node/egress_client_udp.h tunnel/node/egress_client_udp_choice.c tunnel/node/egress_client_udp_choice.h tunnel/node/egress_client_udp_flow.c tunnel/node/egress_client_udp_private.h tunnel/node/egress_client_udp_tell.c \
	tunnel/node/tunnel_client.c tunnel/node/tunnel_client.h tunnel/node/tunnel_client_dial.c tunnel/node/tunnel_client_dial.h tunnel/node/tunnel_client_private.h tunnel/node/tunnel_client_tell.c \
	tunnel/h2/conn_window.c tunnel/h2/conn_window.h \
	tunnel/h2/relay.c tunnel/h2/relay.h \
	tunnel/node/hole_punch.c tunnel/node/hole_punch.h tunnel/node/rendezvous_line.c tunnel/node/rendezvous_line.h \
	tunnel/node/stream_server.c tunnel/node/stream_server.h tunnel/node/stream_server_udp.c tunnel/node/stream_server_udp.h \
	tunnel/h2/session.c tunnel/h2/session.h tunnel/h2/session_frames.c tunnel/h2/session_private.h \
	tunnel/h2/session_coding.c tunnel/h2/session_life.c tunnel/h2/session_notes.c \
	tunnel/h2/session_stream.c tunnel/h2/session_tell.c tunnel/h2/session_window.c tunnel/h2/session_wire.c \
	tunnel/node/dial_target.c tunnel/node/dial_target.h \
	tunnel/tunnel.h \
	tunnel/udp/udp_door.c tunnel/udp/udp_door.h \
	tunnel/h2/udp_path.c tunnel/h2/udp_path.h \
	tunnel/udp/udp_relay.c tunnel/udp/udp_relay.h \
	tunnel/node/reachable_nets.c tunnel/node/reachable_nets.h \
	tunnel/h2/wire.h

TUNNEL_LDADD = tunnel/libtunnel.a $(MODEL_LDADD) $(NGHTTP2_LIBS)

FUZZERS += tests/fuzz/capsule_fuzz tests/fuzz/opening_fuzz tests/fuzz/rendezvous_fuzz tests/fuzz/tunnel_fuzz tests/fuzz/vicinity_fuzz
tests_fuzz_capsule_fuzz_SOURCES = tests/fuzz/capsule_fuzz.c
tests_fuzz_capsule_fuzz_LDADD = $(TUNNEL_LDADD)
tests_fuzz_rendezvous_fuzz_SOURCES = tests/fuzz/rendezvous_fuzz.c
tests_fuzz_rendezvous_fuzz_LDADD = $(TUNNEL_LDADD)
tests_fuzz_opening_fuzz_SOURCES = tests/fuzz/opening_fuzz.c
tests_fuzz_opening_fuzz_LDADD = $(TUNNEL_LDADD)
tests_fuzz_tunnel_fuzz_SOURCES = tests/fuzz/tunnel_fuzz.c
tests_fuzz_tunnel_fuzz_LDADD = $(TUNNEL_LDADD)
tests_fuzz_vicinity_fuzz_SOURCES = tests/fuzz/vicinity_fuzz.c
tests_fuzz_vicinity_fuzz_LDADD = $(TUNNEL_LDADD)

if HAVE_CMOCKA
TUNNEL_TESTS = tests/unit/tunnel/node/agent_query_test tests/unit/tunnel/node/tunnel_acl_test tests/unit/base/http/ws_tunnel_test tests/unit/tunnel/udp/capsule_test tests/unit/tunnel/h2/chain_test tests/unit/base/http/frame_budget_test tests/unit/base/http/h2_preface_test tests/unit/tunnel/node/egress_client_test tests/unit/tunnel/h2/conn_window_test tests/unit/tunnel/h2/relay_test tests/unit/base/http/session_memory_test \
	tests/unit/tunnel/h2/session_test tests/unit/tunnel/h2/session_life_test tests/unit/tunnel/h2/tunnel_test tests/unit/tunnel/h2/tunnel_limits_test tests/unit/tunnel/h2/tunnel_waves_test tests/unit/tunnel/h2/tunnel_idle_test tests/unit/tunnel/h2/tunnel_coding_test tests/unit/tunnel/node/node_peers_test tests/unit/tunnel/node/floods_test tests/unit/tunnel/node/rendezvous_line_test tests/unit/tunnel/node/reachability_test tests/unit/tunnel/node/dial_target_test tests/unit/tunnel/node/reachable_nets_test tests/unit/tunnel/udp/udp_relay_test \
	tests/unit/tunnel/udp/stream_join_test tests/unit/tunnel/udp/flows_test tests/unit/tunnel/node/egress_client_udp_test
check_PROGRAMS += $(TUNNEL_TESTS)
TESTS += $(TUNNEL_TESTS)
tests_unit_tunnel_node_agent_query_test_SOURCES = tests/unit/tunnel/node/agent_query_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_node_agent_query_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_egress_client_udp_test_SOURCES = tests/unit/tunnel/node/egress_client_udp_test.c $(CLOCK)
tests_unit_tunnel_node_egress_client_udp_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_udp_stream_join_test_SOURCES = tests/unit/tunnel/udp/stream_join_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_udp_stream_join_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_udp_flows_test_SOURCES = tests/unit/tunnel/udp/flows_test.c
tests_unit_tunnel_udp_flows_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_frame_budget_test_SOURCES = tests/unit/base/http/frame_budget_test.c
tests_unit_base_http_frame_budget_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_rendezvous_line_test_SOURCES = tests/unit/tunnel/node/rendezvous_line_test.c
tests_unit_tunnel_node_rendezvous_line_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_dial_target_test_SOURCES = tests/unit/tunnel/node/dial_target_test.c
tests_unit_tunnel_node_dial_target_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_tunnel_acl_test_SOURCES = tests/unit/tunnel/node/tunnel_acl_test.c
tests_unit_tunnel_node_tunnel_acl_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_udp_capsule_test_SOURCES = tests/unit/tunnel/udp/capsule_test.c
tests_unit_tunnel_udp_capsule_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_ws_tunnel_test_SOURCES = tests/unit/base/http/ws_tunnel_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_base_http_ws_tunnel_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_session_memory_test_SOURCES = tests/unit/base/http/session_memory_test.c
tests_unit_base_http_session_memory_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_chain_test_SOURCES = tests/unit/tunnel/h2/chain_test.c
tests_unit_tunnel_h2_chain_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_tunnel_limits_test_SOURCES = tests/unit/tunnel/h2/tunnel_limits_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_limits_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_tunnel_waves_test_SOURCES = tests/unit/tunnel/h2/tunnel_waves_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_waves_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_session_test_SOURCES = tests/unit/tunnel/h2/session_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_session_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_session_life_test_SOURCES = tests/unit/tunnel/h2/session_life_test.c $(CLOCK)
tests_unit_tunnel_h2_session_life_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_session_life_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sock_received -Wl,--wrap=sock_probe -Wl,--wrap=sock_drains -Wl,--wrap=sock_paths_lost
tests_unit_tunnel_h2_tunnel_idle_test_SOURCES = tests/unit/tunnel/h2/tunnel_idle_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_idle_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_h2_preface_test_SOURCES = tests/unit/base/http/h2_preface_test.c
tests_unit_base_http_h2_preface_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_egress_client_test_SOURCES = tests/unit/tunnel/node/egress_client_test.c $(CLOCK)
tests_unit_tunnel_node_egress_client_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_tunnel_coding_test_SOURCES = tests/unit/tunnel/h2/tunnel_coding_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_coding_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_conn_window_test_SOURCES = tests/unit/tunnel/h2/conn_window_test.c
tests_unit_tunnel_h2_conn_window_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_relay_test_SOURCES = tests/unit/tunnel/h2/relay_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_relay_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_floods_test_SOURCES = tests/unit/tunnel/node/floods_test.c
tests_unit_tunnel_node_floods_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_node_peers_test_SOURCES = tests/unit/tunnel/node/node_peers_test.c $(CLOCK)
tests_unit_tunnel_node_node_peers_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_node_peers_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=stream_server_peer_opened
tests_unit_tunnel_node_reachability_test_SOURCES = tests/unit/tunnel/node/reachability_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_node_reachability_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_reachable_nets_test_SOURCES = tests/unit/tunnel/node/reachable_nets_test.c
tests_unit_tunnel_node_reachable_nets_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_udp_udp_relay_test_SOURCES = tests/unit/tunnel/udp/udp_relay_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_udp_udp_relay_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_tunnel_test_SOURCES = tests/unit/tunnel/h2/tunnel_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
endif
