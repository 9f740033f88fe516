EXTRA_PROGRAMS += bench/floor bench/echo bench/maps bench/tunnel bench/pump bench/delay bench/openloop
bench_floor_SOURCES = bench/floor.c
bench_floor_LDADD = base/libbase.a
bench_echo_SOURCES = bench/echo.c
bench_echo_LDADD = base/libbase.a
bench_maps_SOURCES = bench/maps.c
bench_maps_LDADD = iptables/libiptables.a $(MODEL_LDADD) $(NFTNL_LIBS) $(MNL_LIBS)
# Not a benchmark of its own: tests/net/metadata/test_fanout.py uses it as well.
check_PROGRAMS += bench/agents
bench_agents_SOURCES = bench/agents.c bench/agents.h bench/agents_dial.c bench/agents_talk.c bench/agents_tunnel.c
bench_agents_LDADD = $(MODEL_LDADD)
EXTRA_DIST += bench/bench_fanout.py bench/bench_grpc.py bench/bench_peers.py bench/bench_idle.py
EXTRA_DIST += bench/soak.py bench/soak_client.py bench/soak_faults.py bench/soak_town.py
bench_tunnel_SOURCES = bench/tunnel.c
bench_tunnel_LDADD = $(TUNNEL_LDADD)
bench_pump_SOURCES = bench/pump.c
bench_pump_LDADD = base/libbase.a
bench_openloop_SOURCES = bench/openloop.c
bench_openloop_LDADD = base/libbase.a
bench_delay_SOURCES = bench/delay.c
bench_delay_LDADD = $(BASE_LDADD)
EXTRA_DIST += bench/bench.py bench/bench_latency.py bench/bench_streams.py
EXTRA_DIST += bench/frame.py bench/bad_node.py bench/bench_bad_node.py bench/bench_dns.py bench/bench_door.py bench/bench_door_tls.py bench/bench_http.py bench/bench_kernel.py bench/bench_kubernetes.py bench/bench_memory.py bench/bench_routes.py bench/bench_tracing.py bench/bench_tunnel.py bench/RESULTS.md

# make bench          the whole comparison (root; namespaces of its own), three runs and more
# make bench BENCH=smoke   one short round, to see that it runs
.PHONY: bench
bench: all bench/floor bench/echo bench/maps bench/agents bench/tunnel bench/pump bench/delay bench/openloop
	cd $(abs_top_builddir) && /usr/bin/python3 $(abs_top_srcdir)/bench/bench.py $(if $(filter smoke,$(BENCH)),--smoke)
