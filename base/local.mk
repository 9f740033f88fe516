noinst_LIBRARIES += base/libbase.a
base_libbase_a_SOURCES = \
	base/address_list.c base/address_list.h \
	base/addresses.c base/addresses.h \
	base/admin.c base/admin.h base/admin_conn.c base/admin_conn.h base/admin_query.c \
	base/arrival.c base/arrival.h \
	base/base64.c base/base64.h \
	base/buf.c base/buf.h \
	base/cgroup.c base/cgroup.h \
	base/descriptors.c base/descriptors.h \
	base/doubling.c base/doubling.h \
	base/err.c base/err.h \
	base/fair_share.c base/fair_share.h \
	base/finding.h \
	base/fswatch.c base/fswatch.h \
	base/hash.c base/hash.h \
	base/heap.c base/heap.h \
	base/hops.c base/hops.h \
	base/lines.c base/lines.h \
	base/log.c base/log.h \
	base/loop.c base/loop.h \
	base/metric.c base/metric.h \
	base/netwatch.c base/netwatch.h \
	base/network.c base/network.h \
	base/notify.c base/notify.h \
	base/opt.c base/opt.h base/opt_flags.c base/opt_load.h base/opt_print.c base/opt_text.c \
	base/opt_value.c base/opt_value.h \
	base/own_host.c base/own_host.h \
	base/pack.c base/pack.h \
	base/pktinfo.c base/pktinfo.h \
	base/preauth.c base/preauth.h \
	base/privileges.c base/privileges.h \
	base/sandbox.h base/sandbox_table.c base/sandbox_table.h \
	base/squeeze.c base/squeeze.h \
	base/proxy.c base/proxy.h base/proxy_url.c \
	base/fdpass.c base/fdpass.h \
	base/inherited.c base/inherited.h \
	base/port_holder.c base/port_holder.h \
	base/procinfo.c base/procinfo.h \
	base/rate.c base/rate.h \
	base/sock.c base/sock.h \
	base/special_addr.c base/special_addr.h \
	base/traceparent.c base/traceparent.h \
	base/tree.c base/tree.h base/tree_build.h base/tree_json.c base/tree_yaml.c \
	base/util.c base/util.h \
	base/wire.c base/wire.h base/wire_socket.c

if SECCOMP
base_libbase_a_SOURCES += base/sandbox.c
else
base_libbase_a_SOURCES += base/sandbox_none.c
endif

include base/http1.mk
include base/resolve.mk
include base/ws.mk

# llhttp as Debian 12 ships it: C sources, compiled here into a library of their own.
if LLHTTP_FROM_SOURCE
LLHTTP_LIB = base/libllhttp.a
LLHTTP_OBJS = base/llhttp-api.$(OBJEXT) base/llhttp-http.$(OBJEXT) base/llhttp-llhttp.$(OBJEXT)
CLEANFILES += base/libllhttp.a $(LLHTTP_OBJS)
base/llhttp-api.$(OBJEXT): $(LLHTTP_SOURCE)/api.c
	$(AM_V_CC)$(MKDIR_P) base && $(CC) $(HARD_CFLAGS) $(SAN_CFLAGS) $(LLHTTP_CFLAGS) $(CFLAGS) -c -o $@ $(LLHTTP_SOURCE)/api.c
base/llhttp-http.$(OBJEXT): $(LLHTTP_SOURCE)/http.c
	$(AM_V_CC)$(MKDIR_P) base && $(CC) $(HARD_CFLAGS) $(SAN_CFLAGS) $(LLHTTP_CFLAGS) $(CFLAGS) -c -o $@ $(LLHTTP_SOURCE)/http.c
base/llhttp-llhttp.$(OBJEXT): $(LLHTTP_SOURCE)/llhttp.c
	$(AM_V_CC)$(MKDIR_P) base && $(CC) $(HARD_CFLAGS) $(SAN_CFLAGS) $(LLHTTP_CFLAGS) $(CFLAGS) -c -o $@ $(LLHTTP_SOURCE)/llhttp.c
base/libllhttp.a: $(LLHTTP_OBJS)
	$(AM_V_AR)rm -f $@ && $(AR) cr $@ $(LLHTTP_OBJS) && $(RANLIB) $@
endif

# For tests whose time is its own: what both headers say.
PATIENCE = tests/unit/patience.h
CLOCK = tests/fake/clock.c tests/fake/clock.h $(PATIENCE)

FUZZERS += tests/fuzz/tree_fuzz
tests_fuzz_tree_fuzz_SOURCES = tests/fuzz/tree_fuzz.c
tests_fuzz_tree_fuzz_LDADD = $(BASE_LDADD)

if HAVE_CMOCKA
if SECCOMP
check_PROGRAMS += tests/unit/sandbox_test
TESTS += tests/unit/sandbox_test
tests_unit_sandbox_test_SOURCES = tests/unit/sandbox_test.c
tests_unit_sandbox_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
BASE_TESTS = tests/unit/addresses_test \
	tests/unit/admin_test \
	tests/unit/buf_test \
	tests/unit/cgroup_test \
	tests/unit/fair_share_test \
	tests/unit/lines_test \
	tests/unit/log_test \
	tests/unit/loop_test \
	tests/unit/notify_test \
	tests/unit/opt_test \
	tests/unit/pack_test \
	tests/unit/squeeze_test \
	tests/unit/preauth_test \
	tests/unit/privileges_test \
	tests/unit/proxy_test \
	tests/unit/heap_test \
	tests/unit/hops_test \
	tests/unit/rate_test \
	tests/unit/sock_test \
	tests/unit/special_addr_test \
	tests/unit/traceparent_test \
	tests/unit/tree_test
check_PROGRAMS += $(BASE_TESTS)
TESTS += $(BASE_TESTS)
tests_unit_addresses_test_SOURCES = tests/unit/addresses_test.c $(PATIENCE)
tests_unit_addresses_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_admin_test_SOURCES = tests/unit/admin_test.c $(CLOCK)
tests_unit_admin_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_buf_test_SOURCES = tests/unit/buf_test.c
tests_unit_buf_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_cgroup_test_SOURCES = tests/unit/cgroup_test.c
tests_unit_cgroup_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_fair_share_test_SOURCES = tests/unit/fair_share_test.c
tests_unit_fair_share_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_lines_test_SOURCES = tests/unit/lines_test.c
tests_unit_lines_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_log_test_SOURCES = tests/unit/log_test.c
tests_unit_log_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_loop_test_SOURCES = tests/unit/loop_test.c
tests_unit_loop_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_notify_test_SOURCES = tests/unit/notify_test.c
tests_unit_notify_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_opt_test_SOURCES = tests/unit/opt_test.c
tests_unit_opt_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_squeeze_test_SOURCES = tests/unit/squeeze_test.c
tests_unit_squeeze_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_pack_test_SOURCES = tests/unit/pack_test.c
tests_unit_pack_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_preauth_test_SOURCES = tests/unit/preauth_test.c
tests_unit_preauth_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_privileges_test_SOURCES = tests/unit/privileges_test.c
tests_unit_privileges_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_proxy_test_SOURCES = tests/unit/proxy_test.c $(CLOCK)
tests_unit_proxy_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_heap_test_SOURCES = tests/unit/heap_test.c
tests_unit_heap_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_hops_test_SOURCES = tests/unit/hops_test.c
tests_unit_hops_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_rate_test_SOURCES = tests/unit/rate_test.c
tests_unit_rate_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_sock_test_SOURCES = tests/unit/sock_test.c
tests_unit_sock_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_special_addr_test_SOURCES = tests/unit/special_addr_test.c
tests_unit_special_addr_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_traceparent_test_SOURCES = tests/unit/traceparent_test.c
tests_unit_traceparent_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_tree_test_SOURCES = tests/unit/tree_test.c
tests_unit_tree_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
