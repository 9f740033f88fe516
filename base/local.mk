noinst_LIBRARIES += base/libbase.a
base_libbase_a_SOURCES = \
	base/core/address_list.c base/core/address_list.h \
	base/os/addresses.c base/os/addresses.h \
	base/http/admin.c base/http/admin.h base/http/admin_conn.c base/http/admin_conn.h base/http/admin_query.c \
	base/os/arrival.c base/os/arrival.h \
	base/core/base64.c base/core/base64.h \
	base/core/buf.c base/core/buf.h \
	base/os/cgroup.c base/os/cgroup.h \
	base/core/descriptors.c base/core/descriptors.h \
	base/core/doubling.c base/core/doubling.h \
	base/core/err.c base/core/err.h \
	base/core/fair_share.c base/core/fair_share.h \
	base/core/finding.h \
	base/os/fswatch.c base/os/fswatch.h \
	base/core/hash.c base/core/hash.h \
	base/core/heap.c base/core/heap.h \
	base/core/hops.c base/core/hops.h \
	base/core/lines.c base/core/lines.h \
	base/core/log.c base/core/log.h \
	base/core/loop.c base/core/loop.h \
	base/core/metric.c base/core/metric.h \
	base/os/netwatch.c base/os/netwatch.h \
	base/os/network.c base/os/network.h \
	base/os/notify.c base/os/notify.h \
	base/conf/opt.c base/conf/opt.h base/conf/opt_flags.c base/conf/opt_load.h base/conf/opt_print.c base/conf/opt_text.c \
	base/conf/opt_value.c base/conf/opt_value.h \
	base/http/own_host.c base/http/own_host.h \
	base/core/pack.c base/core/pack.h \
	base/os/pktinfo.c base/os/pktinfo.h \
	base/core/preauth.c base/core/preauth.h \
	base/core/privileges.c base/core/privileges.h \
	base/os/sandbox.h base/os/sandbox_table.c base/os/sandbox_table.h \
	base/tls/squeeze.c base/tls/squeeze.h \
	base/http/proxy.c base/http/proxy.h base/http/proxy_url.c \
	base/core/fdpass.c base/core/fdpass.h \
	base/core/inherited.c base/core/inherited.h \
	base/os/port_holder.c base/os/port_holder.h \
	base/os/procinfo.c base/os/procinfo.h \
	base/core/rate.c base/core/rate.h \
	base/core/sock.c base/core/sock.h \
	base/core/special_addr.c base/core/special_addr.h \
	base/http/traceparent.c base/http/traceparent.h \
	base/conf/tree.c base/conf/tree.h base/conf/tree_build.h base/conf/tree_json.c base/conf/tree_yaml.c \
	base/core/util.c base/core/util.h \
	base/tls/wire.c base/tls/wire.h base/tls/wire_socket.c

if SECCOMP
base_libbase_a_SOURCES += base/os/sandbox.c
else
base_libbase_a_SOURCES += base/os/sandbox_none.c
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
