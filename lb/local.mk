noinst_LIBRARIES += lb/liblb.a
lb_liblb_a_SOURCES = \
	lb/balance/affinity.c lb/balance/affinity.h \
	lb/balance/balance.c lb/balance/balance.h \
	lb/balance/budget.c lb/balance/budget.h \
	lb/balance/fair_queue.c lb/balance/fair_queue.h \
	lb/balance/hashkey.c lb/balance/hashkey.h \
	lb/balance/maglev.c lb/balance/maglev.h \
	lb/balance/service_stats.c lb/balance/service_stats.h \
	lb/balance/shared.c lb/balance/shared.h \
	lb/balance/target.c \
	lb/balance/targets.c lb/balance/targets.h \
	lb/conn/expiry.c lb/conn/expiry.h \
	lb/conn/gather.c lb/conn/gather.h \
	lb/conn/list.h \
	lb/conn/origdst.c lb/conn/origdst.h \
	lb/conn/peer.c lb/conn/peer.h \
	lb/proxy/access_log.c lb/proxy/access_log.h \
	lb/proxy/answer.c lb/proxy/answer.h \
	lb/proxy/dial.c lb/proxy/dial.h \
	lb/proxy/exchange.c lb/proxy/exchange.h \
	lb/proxy/h2_client.c lb/proxy/h2_client.h \
	lb/proxy/h2_link.c lb/proxy/h2_link.h \
	lb/proxy/h2_attempt.c lb/proxy/h2_stream.c lb/proxy/h2_stream.h lb/proxy/h2_stream_private.h \
	lb/proxy/h2_upstream.c lb/proxy/h2_upstream.h \
	lb/proxy/health.c lb/proxy/health.h \
	lb/proxy/listener.c lb/proxy/listener.h \
	lb/proxy/memory.c lb/proxy/memory.h \
	lb/proxy/mirror.c lb/proxy/mirror.h \
	lb/proxy/outlier.c lb/proxy/outlier.h \
	lb/proxy/outlier_share.c lb/proxy/outlier_share.h \
	lb/proxy/permit.c lb/proxy/permit.h \
	lb/proxy/pick.c lb/proxy/pick.h \
	lb/proxy/pool.c lb/proxy/pool.h \
	lb/proxy/probe.c lb/proxy/probe.h \
	lb/proxy/proxy.c lb/proxy/proxy.h \
	lb/proxy/relay.c lb/proxy/relay.h \
	lb/proxy/routing.c lb/proxy/routing.h \
	lb/proxy/session.c lb/proxy/session.h \
	lb/proxy/server_first.c lb/proxy/server_first.h \
	lb/proxy/splice.c lb/proxy/splice.h \
	lb/proxy/tap.c lb/proxy/tap.h \
	lb/proxy/trace.c lb/proxy/trace.h \
	lb/proxy/upstream_tls.c lb/proxy/upstream_tls.h \
	lb/proxy/wait_queue.c lb/proxy/wait_queue.h \
	lb/proxy/worker.c lb/proxy/worker.h \
	lb/known.c lb/known.h \
	lb/lb.c lb/lb.h \
	lb/look.c \
	lb/stats.c

if HAVE_CMOCKA
LB_TESTS = \
	tests/unit/lb/conn/gather_test \
	tests/unit/lb/conn/peer_test \
	tests/unit/lb/conn/peer_tls_test \
	tests/unit/lb/balance/balance_test \
	tests/unit/lb/proxy/lb_dial_test \
	tests/unit/lb/proxy/lb_families_test \
	tests/unit/lb/proxy/lb_drain_test \
	tests/unit/lb/proxy/lb_end_test \
	tests/unit/lb/proxy/lb_stray_test \
	tests/unit/lb/proxy/lb_loop_test \
	tests/unit/lb/proxy/lb_memory_test \
	tests/unit/lb/proxy/lb_relay_test \
	tests/unit/lb/proxy/routing_test \
	tests/unit/lb/proxy/lb_tally_test \
	tests/unit/lb/proxy/lb_tap_test \
	tests/unit/lb/proxy/lb_turn_test \
	tests/unit/lb/proxy/lb_answer_test \
	tests/unit/lb/proxy/lb_workers_test \
	tests/unit/lb/proxy/lb_test
check_PROGRAMS += $(LB_TESTS)
TESTS += $(LB_TESTS)
LB_FIXTURE = $(CLOCK) tests/fake/origdst.c tests/fake/origdst.h tests/unit/lb/proxy/lb_fixture.c tests/unit/lb/proxy/lb_fixture.h
LB_LDADD = lb/liblb.a $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_lb_balance_balance_test_SOURCES = tests/unit/lb/balance/balance_test.c
tests_unit_lb_balance_balance_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_dial_test_SOURCES = tests/unit/lb/proxy/lb_dial_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_dial_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_families_test_SOURCES = tests/unit/lb/proxy/lb_families_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_families_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_drain_test_SOURCES = tests/unit/lb/proxy/lb_drain_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_drain_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_end_test_SOURCES = tests/unit/lb/proxy/lb_end_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_end_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_stray_test_SOURCES = tests/unit/lb/proxy/lb_stray_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_stray_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_loop_test_SOURCES = tests/unit/lb/proxy/lb_loop_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_loop_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_memory_test_SOURCES = tests/unit/lb/proxy/lb_memory_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_memory_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_relay_test_SOURCES = tests/unit/lb/proxy/lb_relay_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_relay_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_routing_test_SOURCES = tests/unit/lb/proxy/routing_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_routing_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_tally_test_SOURCES = tests/unit/lb/proxy/lb_tally_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_tally_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_tap_test_SOURCES = tests/unit/lb/proxy/lb_tap_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_tap_test_LDADD = $(LB_LDADD)
tests_unit_lb_conn_gather_test_SOURCES = tests/unit/lb/conn/gather_test.c
tests_unit_lb_conn_gather_test_LDADD = $(LB_LDADD)
tests_unit_lb_conn_peer_test_SOURCES = tests/unit/lb/conn/peer_test.c
tests_unit_lb_conn_peer_test_LDADD = $(LB_LDADD)
tests_unit_lb_conn_peer_tls_test_SOURCES = tests/unit/lb/conn/peer_tls_test.c $(TLS_KEYS) $(PATIENCE)
tests_unit_lb_conn_peer_tls_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_turn_test_SOURCES = tests/unit/lb/proxy/lb_turn_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_turn_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_answer_test_SOURCES = tests/unit/lb/proxy/lb_answer_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_answer_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_workers_test_SOURCES = tests/unit/lb/proxy/lb_workers_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_workers_test_LDADD = $(LB_LDADD)
tests_unit_lb_proxy_lb_test_SOURCES = tests/unit/lb/proxy/lb_test.c $(LB_FIXTURE)
tests_unit_lb_proxy_lb_test_LDADD = $(LB_LDADD)
endif
