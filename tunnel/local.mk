noinst_LIBRARIES += tunnel/libtunnel.a
tunnel_libtunnel_a_SOURCES = \
	tunnel/node/allow.c tunnel/node/allow.h \
	tunnel/udp/capsule.c tunnel/udp/capsule.h \
	tunnel/h2/chain.c tunnel/h2/chain.h \
	tunnel/h2/couple.c tunnel/h2/couple.h \
	tunnel/node/agent_query.c tunnel/node/agent_query.h \
	tunnel/node/declaration.c tunnel/node/declaration.h \
	tunnel/udp/dgram.c tunnel/udp/dgram.h \
	tunnel/udp/dgram_couple.c tunnel/udp/dgram_couple.h \
	tunnel/udp/flows.c tunnel/udp/flows.h \
	tunnel/h2/frame_budget.c tunnel/h2/frame_budget.h \
	tunnel/node/outlet.c tunnel/node/outlet.h \
	tunnel/node/outlet_udp.c tunnel/node/outlet_udp.h tunnel/node/outlet_udp_choice.c tunnel/node/outlet_udp_choice.h tunnel/node/outlet_udp_flow.c tunnel/node/outlet_udp_private.h tunnel/node/outlet_udp_tell.c \
	tunnel/node/link.c tunnel/node/link.h tunnel/node/link_dial.c tunnel/node/link_dial.h tunnel/node/link_private.h tunnel/node/link_tell.c \
	tunnel/h2/opening.c tunnel/h2/opening.h \
	tunnel/h2/reception.c tunnel/h2/reception.h \
	tunnel/h2/relay.c tunnel/h2/relay.h \
	tunnel/node/serve.c tunnel/node/serve.h tunnel/node/serve_udp.c tunnel/node/serve_udp.h \
	tunnel/h2/session.c tunnel/h2/session.h tunnel/h2/session_frames.c tunnel/h2/session_private.h \
	tunnel/h2/session_coding.c tunnel/h2/session_life.c tunnel/h2/session_memory.c tunnel/h2/session_memory.h tunnel/h2/session_notes.c \
	tunnel/h2/session_stream.c tunnel/h2/session_tell.c tunnel/h2/session_window.c tunnel/h2/session_wire.c \
	tunnel/node/target.c tunnel/node/target.h \
	tunnel/tunnel.h \
	tunnel/udp/udp_door.c tunnel/udp/udp_door.h \
	tunnel/h2/udp_path.c tunnel/h2/udp_path.h \
	tunnel/udp/udp_relay.c tunnel/udp/udp_relay.h \
	tunnel/node/vicinity.c tunnel/node/vicinity.h \
	tunnel/h2/wire.h

TUNNEL_LDADD = tunnel/libtunnel.a $(MODEL_LDADD) $(NGHTTP2_LIBS)

FUZZERS += tests/fuzz/capsule_fuzz tests/fuzz/opening_fuzz tests/fuzz/tunnel_fuzz tests/fuzz/vicinity_fuzz
tests_fuzz_capsule_fuzz_SOURCES = tests/fuzz/capsule_fuzz.c
tests_fuzz_capsule_fuzz_LDADD = $(TUNNEL_LDADD)
tests_fuzz_opening_fuzz_SOURCES = tests/fuzz/opening_fuzz.c
tests_fuzz_opening_fuzz_LDADD = $(TUNNEL_LDADD)
tests_fuzz_tunnel_fuzz_SOURCES = tests/fuzz/tunnel_fuzz.c
tests_fuzz_tunnel_fuzz_LDADD = $(TUNNEL_LDADD)
tests_fuzz_vicinity_fuzz_SOURCES = tests/fuzz/vicinity_fuzz.c
tests_fuzz_vicinity_fuzz_LDADD = $(TUNNEL_LDADD)

if HAVE_CMOCKA
TUNNEL_TESTS = tests/unit/tunnel/node/agent_query_test tests/unit/tunnel/node/allow_test tests/unit/base/http/carrier_test tests/unit/tunnel/udp/capsule_test tests/unit/tunnel/h2/chain_test tests/unit/tunnel/h2/frame_budget_test tests/unit/tunnel/h2/opening_test tests/unit/tunnel/node/outlet_test tests/unit/tunnel/h2/reception_test tests/unit/tunnel/h2/relay_test tests/unit/tunnel/h2/session_memory_test \
	tests/unit/tunnel/h2/tunnel_test tests/unit/tunnel/h2/tunnel_limits_test tests/unit/tunnel/h2/tunnel_waves_test tests/unit/tunnel/h2/tunnel_idle_test tests/unit/tunnel/h2/tunnel_coding_test tests/unit/tunnel/node/declaration_test tests/unit/tunnel/node/target_test tests/unit/tunnel/node/vicinity_test tests/unit/tunnel/udp/udp_relay_test \
	tests/unit/tunnel/udp/dgram_couple_test tests/unit/tunnel/udp/flows_test tests/unit/tunnel/node/outlet_udp_test
check_PROGRAMS += $(TUNNEL_TESTS)
TESTS += $(TUNNEL_TESTS)
tests_unit_tunnel_node_agent_query_test_SOURCES = tests/unit/tunnel/node/agent_query_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_node_agent_query_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_outlet_udp_test_SOURCES = tests/unit/tunnel/node/outlet_udp_test.c $(CLOCK)
tests_unit_tunnel_node_outlet_udp_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_udp_dgram_couple_test_SOURCES = tests/unit/tunnel/udp/dgram_couple_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_udp_dgram_couple_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_udp_flows_test_SOURCES = tests/unit/tunnel/udp/flows_test.c
tests_unit_tunnel_udp_flows_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_frame_budget_test_SOURCES = tests/unit/tunnel/h2/frame_budget_test.c
tests_unit_tunnel_h2_frame_budget_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_target_test_SOURCES = tests/unit/tunnel/node/target_test.c
tests_unit_tunnel_node_target_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_allow_test_SOURCES = tests/unit/tunnel/node/allow_test.c
tests_unit_tunnel_node_allow_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_udp_capsule_test_SOURCES = tests/unit/tunnel/udp/capsule_test.c
tests_unit_tunnel_udp_capsule_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_carrier_test_SOURCES = tests/unit/base/http/carrier_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_base_http_carrier_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_session_memory_test_SOURCES = tests/unit/tunnel/h2/session_memory_test.c
tests_unit_tunnel_h2_session_memory_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_chain_test_SOURCES = tests/unit/tunnel/h2/chain_test.c
tests_unit_tunnel_h2_chain_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_tunnel_limits_test_SOURCES = tests/unit/tunnel/h2/tunnel_limits_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_limits_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_tunnel_waves_test_SOURCES = tests/unit/tunnel/h2/tunnel_waves_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_waves_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_tunnel_idle_test_SOURCES = tests/unit/tunnel/h2/tunnel_idle_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_idle_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_opening_test_SOURCES = tests/unit/tunnel/h2/opening_test.c
tests_unit_tunnel_h2_opening_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_outlet_test_SOURCES = tests/unit/tunnel/node/outlet_test.c $(CLOCK)
tests_unit_tunnel_node_outlet_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_tunnel_coding_test_SOURCES = tests/unit/tunnel/h2/tunnel_coding_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_coding_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_reception_test_SOURCES = tests/unit/tunnel/h2/reception_test.c
tests_unit_tunnel_h2_reception_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_relay_test_SOURCES = tests/unit/tunnel/h2/relay_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_relay_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_declaration_test_SOURCES = tests/unit/tunnel/node/declaration_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_node_declaration_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_node_vicinity_test_SOURCES = tests/unit/tunnel/node/vicinity_test.c
tests_unit_tunnel_node_vicinity_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_udp_udp_relay_test_SOURCES = tests/unit/tunnel/udp/udp_relay_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_udp_udp_relay_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_h2_tunnel_test_SOURCES = tests/unit/tunnel/h2/tunnel_test.c tests/unit/tunnel/h2/tunnel_bed.c tests/unit/tunnel/h2/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_h2_tunnel_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
endif
