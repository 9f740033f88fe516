noinst_LIBRARIES += lb/liblb.a
lb_liblb_a_SOURCES = \
	lb/access_log.c lb/access_log.h \
	lb/affinity.c lb/affinity.h \
	lb/answer.c lb/answer.h \
	lb/balance.c lb/balance.h \
	lb/outlier.c lb/outlier.h \
	lb/budget.c lb/budget.h \
	lb/pick.c lb/pick.h \
	lb/dial.c lb/dial.h \
	lb/exchange.c lb/exchange.h \
	lb/expiry.c lb/expiry.h \
	lb/gather.c lb/gather.h \
	lb/outlier_share.c lb/outlier_share.h \
	lb/hashkey.c lb/hashkey.h \
	lb/health.c lb/health.h \
	lb/known.c lb/known.h lb/look.c \
	lb/fair_queue.c lb/fair_queue.h \
	lb/lb.c lb/lb.h \
	lb/list.h \
	lb/listener.c lb/listener.h \
	lb/maglev.c lb/maglev.h \
	lb/origdst.c lb/origdst.h \
	lb/memory.c lb/memory.h \
	lb/peer.c lb/peer.h \
	lb/permit.c lb/permit.h \
	lb/pool.c lb/pool.h \
	lb/private.h \
	lb/probe.c lb/probe.h \
	lb/proxy.c lb/proxy.h \
	lb/relay.c lb/relay.h \
	lb/shared.c lb/shared.h \
	lb/server_first.c lb/server_first.h \
	lb/splice.c lb/splice.h \
	lb/stats.c \
	lb/service_stats.c lb/service_stats.h \
	lb/tap.c lb/tap.h \
	lb/target.c \
	lb/targets.c lb/targets.h \
	lb/trace.c lb/trace.h \
	lb/wait_queue.c lb/wait_queue.h \
	lb/worker.c

if HAVE_CMOCKA
LB_TESTS = \
	tests/unit/lb/balance_test \
	tests/unit/lb/lb_dial_test \
	tests/unit/lb/lb_drain_test \
	tests/unit/lb/lb_loop_test \
	tests/unit/lb/lb_memory_test \
	tests/unit/lb/lb_relay_test \
	tests/unit/lb/lb_tally_test \
	tests/unit/lb/lb_tap_test \
	tests/unit/lb/lb_turn_test \
	tests/unit/lb/lb_answer_test \
	tests/unit/lb/lb_workers_test \
	tests/unit/lb/lb_test
check_PROGRAMS += $(LB_TESTS)
TESTS += $(LB_TESTS)
LB_FIXTURE = $(CLOCK) tests/fake/origdst.c tests/fake/origdst.h tests/unit/lb/lb_fixture.c tests/unit/lb/lb_fixture.h
LB_LDADD = lb/liblb.a $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_lb_balance_test_SOURCES = tests/unit/lb/balance_test.c
tests_unit_lb_balance_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_dial_test_SOURCES = tests/unit/lb/lb_dial_test.c $(LB_FIXTURE)
tests_unit_lb_lb_dial_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_drain_test_SOURCES = tests/unit/lb/lb_drain_test.c $(LB_FIXTURE)
tests_unit_lb_lb_drain_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_loop_test_SOURCES = tests/unit/lb/lb_loop_test.c $(LB_FIXTURE)
tests_unit_lb_lb_loop_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_memory_test_SOURCES = tests/unit/lb/lb_memory_test.c $(LB_FIXTURE)
tests_unit_lb_lb_memory_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_relay_test_SOURCES = tests/unit/lb/lb_relay_test.c $(LB_FIXTURE)
tests_unit_lb_lb_relay_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_tally_test_SOURCES = tests/unit/lb/lb_tally_test.c $(LB_FIXTURE)
tests_unit_lb_lb_tally_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_tap_test_SOURCES = tests/unit/lb/lb_tap_test.c $(LB_FIXTURE)
tests_unit_lb_lb_tap_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_turn_test_SOURCES = tests/unit/lb/lb_turn_test.c $(LB_FIXTURE)
tests_unit_lb_lb_turn_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_answer_test_SOURCES = tests/unit/lb/lb_answer_test.c $(LB_FIXTURE)
tests_unit_lb_lb_answer_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_workers_test_SOURCES = tests/unit/lb/lb_workers_test.c $(LB_FIXTURE)
tests_unit_lb_lb_workers_test_LDADD = $(LB_LDADD)
tests_unit_lb_lb_test_SOURCES = tests/unit/lb/lb_test.c $(LB_FIXTURE)
tests_unit_lb_lb_test_LDADD = $(LB_LDADD)
endif
