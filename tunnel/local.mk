noinst_LIBRARIES += tunnel/libtunnel.a
tunnel_libtunnel_a_SOURCES = \
	tunnel/allow.c tunnel/allow.h \
	tunnel/capsule.c tunnel/capsule.h \
	tunnel/chain.c tunnel/chain.h \
	tunnel/couple.c tunnel/couple.h \
	tunnel/agent_query.c tunnel/agent_query.h \
	tunnel/declaration.c tunnel/declaration.h \
	tunnel/dgram.c tunnel/dgram.h \
	tunnel/dgram_couple.c tunnel/dgram_couple.h \
	tunnel/flows.c tunnel/flows.h \
	tunnel/frame_budget.c tunnel/frame_budget.h \
	tunnel/outlet.c tunnel/outlet.h \
	tunnel/outlet_udp.c tunnel/outlet_udp.h tunnel/outlet_udp_choice.c tunnel/outlet_udp_choice.h tunnel/outlet_udp_flow.c tunnel/outlet_udp_private.h tunnel/outlet_udp_tell.c \
	tunnel/link.c tunnel/link.h tunnel/link_dial.c tunnel/link_dial.h tunnel/link_private.h tunnel/link_tell.c \
	tunnel/opening.c tunnel/opening.h \
	tunnel/reception.c tunnel/reception.h \
	tunnel/relay.c tunnel/relay.h \
	tunnel/serve.c tunnel/serve.h tunnel/serve_udp.c tunnel/serve_udp.h \
	tunnel/session.c tunnel/session.h tunnel/session_frames.c tunnel/session_private.h \
	tunnel/session_coding.c tunnel/session_life.c tunnel/session_memory.c tunnel/session_memory.h tunnel/session_notes.c \
	tunnel/session_stream.c tunnel/session_tell.c tunnel/session_window.c tunnel/session_wire.c \
	tunnel/target.c tunnel/target.h \
	tunnel/tunnel.h \
	tunnel/udp_door.c tunnel/udp_door.h \
	tunnel/udp_path.c tunnel/udp_path.h \
	tunnel/udp_relay.c tunnel/udp_relay.h \
	tunnel/vicinity.c tunnel/vicinity.h \
	tunnel/wire.h

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
TUNNEL_TESTS = tests/unit/agent_query_test tests/unit/allow_test tests/unit/carrier_test tests/unit/capsule_test tests/unit/chain_test tests/unit/frame_budget_test tests/unit/opening_test tests/unit/outlet_test tests/unit/reception_test tests/unit/relay_test tests/unit/session_memory_test \
	tests/unit/tunnel_test tests/unit/tunnel_limits_test tests/unit/tunnel_waves_test tests/unit/tunnel_idle_test tests/unit/tunnel_coding_test tests/unit/declaration_test tests/unit/target_test tests/unit/vicinity_test tests/unit/udp_relay_test \
	tests/unit/dgram_couple_test tests/unit/flows_test tests/unit/outlet_udp_test
check_PROGRAMS += $(TUNNEL_TESTS)
TESTS += $(TUNNEL_TESTS)
tests_unit_agent_query_test_SOURCES = tests/unit/agent_query_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_agent_query_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_outlet_udp_test_SOURCES = tests/unit/outlet_udp_test.c $(CLOCK)
tests_unit_outlet_udp_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_dgram_couple_test_SOURCES = tests/unit/dgram_couple_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_dgram_couple_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_flows_test_SOURCES = tests/unit/flows_test.c
tests_unit_flows_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_frame_budget_test_SOURCES = tests/unit/frame_budget_test.c
tests_unit_frame_budget_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_target_test_SOURCES = tests/unit/target_test.c
tests_unit_target_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_allow_test_SOURCES = tests/unit/allow_test.c
tests_unit_allow_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_capsule_test_SOURCES = tests/unit/capsule_test.c
tests_unit_capsule_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_carrier_test_SOURCES = tests/unit/carrier_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_carrier_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_session_memory_test_SOURCES = tests/unit/session_memory_test.c
tests_unit_session_memory_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_chain_test_SOURCES = tests/unit/chain_test.c
tests_unit_chain_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_limits_test_SOURCES = tests/unit/tunnel_limits_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_limits_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_waves_test_SOURCES = tests/unit/tunnel_waves_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_waves_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_idle_test_SOURCES = tests/unit/tunnel_idle_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_idle_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_opening_test_SOURCES = tests/unit/opening_test.c
tests_unit_opening_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_outlet_test_SOURCES = tests/unit/outlet_test.c $(CLOCK)
tests_unit_outlet_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_coding_test_SOURCES = tests/unit/tunnel_coding_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_coding_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_reception_test_SOURCES = tests/unit/reception_test.c
tests_unit_reception_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_relay_test_SOURCES = tests/unit/relay_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_relay_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_declaration_test_SOURCES = tests/unit/declaration_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_declaration_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_vicinity_test_SOURCES = tests/unit/vicinity_test.c
tests_unit_vicinity_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_udp_relay_test_SOURCES = tests/unit/udp_relay_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_udp_relay_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
tests_unit_tunnel_test_SOURCES = tests/unit/tunnel_test.c tests/unit/tunnel_bed.c tests/unit/tunnel_bed.h $(CLOCK)
tests_unit_tunnel_test_LDADD = $(TUNNEL_LDADD) $(CMOCKA_LIBS)
endif
