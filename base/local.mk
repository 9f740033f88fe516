noinst_LIBRARIES += base/libbase.a
base_libbase_a_SOURCES = \
	base/core/address_list.c base/core/address_list.h \
	base/os/addresses.c base/os/addresses.h \
	base/http/admin.c base/http/admin.h base/http/admin_conn.c base/http/admin_conn.h base/http/admin_query.c \
	base/os/ingress_interface.c base/os/ingress_interface.h \
	base/core/base64.c base/core/base64.h \
	base/core/buf.c base/core/buf.h \
	base/os/cgroup.c base/os/cgroup.h \
	base/os/dbus.c base/os/dbus.h \
	base/os/dbus_message.c base/os/dbus_message.h \
	base/core/descriptors.c base/core/descriptors.h \
	base/core/histogram.c base/core/histogram.h \
	base/core/state.c base/core/state.h \
	base/core/err.c base/core/err.h \
	base/core/fair_share.c base/core/fair_share.h \
	base/core/finding.h \
	base/core/flapping.c base/core/flapping.h \
	base/os/fswatch.c base/os/fswatch.h \
	base/core/hash.c base/core/hash.h \
	base/core/heap.c base/core/heap.h \
	base/core/page_pool.c base/core/page_pool.h \
	base/core/hops.c base/core/hops.h \
	base/core/log_queue.c base/core/log_queue.h \
	base/core/thread.c base/core/thread.h \
	base/core/log.c base/core/log.h \
	base/core/liveness.c base/core/liveness.h \
	base/core/loop.c base/core/loop.h \
	base/core/figures.c base/core/figures.h \
	base/core/metric.c base/core/metric.h \
	base/os/netwatch.c base/os/netwatch.h \
	base/os/network.c base/os/network.h \
	base/os/notify.c base/os/notify.h \
	base/conf/opt.c base/conf/opt.h base/conf/opt_flags.c base/conf/opt_load.h base/conf/opt_print.c base/conf/opt_text.c \
	base/conf/opt_value.c base/conf/opt_value.h \
	base/http/http_server.c base/http/http_server.h \
	base/http/own_host.c base/http/own_host.h \
	base/core/gzip.c base/core/gzip.h \
	base/os/pktinfo.c base/os/pktinfo.h \
	base/core/preauth.c base/core/preauth.h \
	base/core/step_pace.c base/core/step_pace.h \
	base/http/retry_after.c base/http/retry_after.h \
	base/tls/pki_tickets.c base/tls/pki_tickets.h \
	base/core/privileges.c base/core/privileges.h \
	base/os/send_ring.c base/os/send_ring.h base/os/sandbox.h base/os/sandbox_table.c base/os/sandbox_table.h \
	base/tls/deflate_stream.c base/tls/deflate_stream.h \
	base/http/proxy.c base/http/proxy.h base/http/proxy_url.c \
	base/core/fdpass.c base/core/fdpass.h \
	base/core/inherited.c base/core/inherited.h \
	base/os/port_holder.c base/os/port_holder.h \
	base/os/procinfo.c base/os/procinfo.h \
	base/core/rate.c base/core/rate.h \
	base/core/sock.c base/core/sock.h base/core/sock_paths.c base/core/sock_paths.h \
	base/core/special_addr.c base/core/special_addr.h \
	base/http/traceparent.c base/http/traceparent.h \
	base/conf/tree.c base/conf/tree.h base/conf/tree_build.h base/conf/tree_json.c base/conf/tree_yaml.c \
	base/core/util.c base/core/util.h \
	base/tls/tls_handshake.c base/tls/tls_handshake.h \
	base/tls/tls_workers.c base/tls/tls_workers.h \
	base/tls/transport.c base/tls/transport.h base/tls/transport_socket.c

if SECCOMP
base_libbase_a_SOURCES += base/os/sandbox.c
else
base_libbase_a_SOURCES += base/os/sandbox_none.c
endif

include base/http1.mk
include base/h2.mk
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

FUZZERS += tests/fuzz/dbus_fuzz tests/fuzz/tree_fuzz
tests_fuzz_dbus_fuzz_SOURCES = tests/fuzz/dbus_fuzz.c
tests_fuzz_dbus_fuzz_LDADD = $(BASE_LDADD)
tests_fuzz_tree_fuzz_SOURCES = tests/fuzz/tree_fuzz.c
tests_fuzz_tree_fuzz_LDADD = $(BASE_LDADD)

if HAVE_CMOCKA
if SECCOMP
check_PROGRAMS += tests/unit/base/os/sandbox_test
TESTS += tests/unit/base/os/sandbox_test
tests_unit_base_os_sandbox_test_SOURCES = tests/unit/base/os/sandbox_test.c
tests_unit_base_os_sandbox_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
BASE_TESTS = tests/unit/base/os/addresses_test \
	tests/unit/base/http/admin_test \
	tests/unit/base/core/buf_test \
	tests/unit/base/os/cgroup_test \
	tests/unit/base/core/fair_share_test \
	tests/unit/base/core/flapping_test \
	tests/unit/base/core/liveness_test \
	tests/unit/base/core/log_queue_test \
	tests/unit/base/core/log_test \
	tests/unit/base/core/loop_test \
	tests/unit/base/core/loop_timers_test \
	tests/unit/base/os/ingress_interface_test \
	tests/unit/base/os/netwatch_test \
	tests/unit/base/os/notify_test \
	tests/unit/base/os/send_ring_test \
	tests/unit/base/conf/opt_test \
	tests/unit/base/core/gzip_test \
	tests/unit/base/tls/deflate_stream_test \
	tests/unit/base/core/preauth_test \
	tests/unit/base/core/step_pace_test \
	tests/unit/base/http/retry_after_test \
	tests/unit/base/tls/pki_tickets_test \
	tests/unit/base/core/privileges_test \
	tests/unit/base/http/proxy_test \
	tests/unit/base/core/heap_test \
	tests/unit/base/core/page_pool_test \
	tests/unit/base/core/hops_test \
	tests/unit/base/core/figures_test \
	tests/unit/base/core/rate_test \
	tests/unit/base/core/sock_test \
	tests/unit/base/core/special_addr_test \
	tests/unit/base/http/traceparent_test \
	tests/unit/base/conf/tree_test
check_PROGRAMS += $(BASE_TESTS)
TESTS += $(BASE_TESTS)
tests_unit_base_os_addresses_test_SOURCES = tests/unit/base/os/addresses_test.c $(PATIENCE)
tests_unit_base_os_addresses_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_admin_test_SOURCES = tests/unit/base/http/admin_test.c $(CLOCK)
tests_unit_base_http_admin_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_buf_test_SOURCES = tests/unit/base/core/buf_test.c
tests_unit_base_core_buf_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_os_cgroup_test_SOURCES = tests/unit/base/os/cgroup_test.c
tests_unit_base_os_cgroup_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_fair_share_test_SOURCES = tests/unit/base/core/fair_share_test.c
tests_unit_base_core_fair_share_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_flapping_test_SOURCES = tests/unit/base/core/flapping_test.c
tests_unit_base_core_flapping_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_liveness_test_SOURCES = tests/unit/base/core/liveness_test.c
tests_unit_base_core_liveness_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_liveness_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sock_received -Wl,--wrap=sock_probe
tests_unit_base_core_log_queue_test_SOURCES = tests/unit/base/core/log_queue_test.c
tests_unit_base_core_log_queue_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_log_test_SOURCES = tests/unit/base/core/log_test.c
tests_unit_base_core_log_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_loop_test_SOURCES = tests/unit/base/core/loop_test.c
tests_unit_base_core_loop_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_loop_timers_test_SOURCES = tests/unit/base/core/loop_timers_test.c
tests_unit_base_core_loop_timers_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_os_ingress_interface_test_SOURCES = tests/unit/base/os/ingress_interface_test.c
tests_unit_base_os_ingress_interface_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_os_send_ring_test_SOURCES = tests/unit/base/os/send_ring_test.c
tests_unit_base_os_send_ring_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_os_send_ring_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=io_uring_queue_init -Wl,--wrap=io_uring_submit_and_wait
tests_unit_base_os_netwatch_test_SOURCES = tests/unit/base/os/netwatch_test.c $(CLOCK)
tests_unit_base_os_netwatch_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_base_os_notify_test_SOURCES = tests/unit/base/os/notify_test.c
tests_unit_base_os_notify_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_conf_opt_test_SOURCES = tests/unit/base/conf/opt_test.c
tests_unit_base_conf_opt_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_tls_deflate_stream_test_SOURCES = tests/unit/base/tls/deflate_stream_test.c
tests_unit_base_tls_deflate_stream_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_gzip_test_SOURCES = tests/unit/base/core/gzip_test.c
tests_unit_base_core_gzip_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_preauth_test_SOURCES = tests/unit/base/core/preauth_test.c $(CLOCK)
tests_unit_base_core_preauth_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_retry_after_test_SOURCES = tests/unit/base/http/retry_after_test.c
tests_unit_base_http_retry_after_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_tls_pki_tickets_test_SOURCES = tests/unit/base/tls/pki_tickets_test.c $(CLOCK)
tests_unit_base_tls_pki_tickets_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_step_pace_test_SOURCES = tests/unit/base/core/step_pace_test.c
tests_unit_base_core_step_pace_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_privileges_test_SOURCES = tests/unit/base/core/privileges_test.c
tests_unit_base_core_privileges_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_proxy_test_SOURCES = tests/unit/base/http/proxy_test.c $(CLOCK)
tests_unit_base_http_proxy_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_heap_test_SOURCES = tests/unit/base/core/heap_test.c
tests_unit_base_core_heap_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_page_pool_test_SOURCES = tests/unit/base/core/page_pool_test.c
tests_unit_base_core_page_pool_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_hops_test_SOURCES = tests/unit/base/core/hops_test.c
tests_unit_base_core_hops_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_figures_test_SOURCES = tests/unit/base/core/figures_test.c
tests_unit_base_core_figures_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_rate_test_SOURCES = tests/unit/base/core/rate_test.c
tests_unit_base_core_rate_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_sock_test_SOURCES = tests/unit/base/core/sock_test.c
tests_unit_base_core_sock_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_core_special_addr_test_SOURCES = tests/unit/base/core/special_addr_test.c
tests_unit_base_core_special_addr_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_base_http_traceparent_test_SOURCES = tests/unit/base/http/traceparent_test.c
tests_unit_base_http_traceparent_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
tests_unit_base_conf_tree_test_SOURCES = tests/unit/base/conf/tree_test.c
tests_unit_base_conf_tree_test_LDADD = $(BASE_LDADD) $(CMOCKA_LIBS)
endif
