/*
 * The proxy in process: one worker on a loop of its own thread, listening on 127.0.0.1, with one
 * service "default/web" on port 80. The test's thread plays the client and the endpoints.
 * tests/fake/origdst.c stands for NAT. Time (tests/fake/clock.h) passes only while the test waits
 * here, a millisecond for each that the loop has seen; what waits gives up after WAIT_MS.
 */
#ifndef EDGEWAY_TESTS_LB_FIXTURE_H
#define EDGEWAY_TESTS_LB_FIXTURE_H

#include "lb/lb.h"

enum { WAIT_MS = 60000, ENDPOINTS = 3 };

/* Before fixture_start: lb_config.memory_bytes and socket_bytes. */
void fixture_budget(uint64_t own_bytes, uint64_t socket_bytes);
/* Before start_lb: lb_config.via. */
void fixture_via(bool via);
/* The same: lb_config.ask_pod. */
void fixture_ask_pod(pod_ask_fn *ask);
/* The same: so many workers, at most two, on one loop. */
void fixture_workers(size_t n);
/* State of the group of tests: cmocka's setup and teardown. */
int fixture_start(void **state);
int fixture_stop(void **state);

/* Endpoint i of ENDPOINTS: its listening socket on 127.0.0.1, made on first use, closed by
 * endpoint_down. */
int endpoint_listen(int i);
void endpoint_down(int i);
/* At a port of which the proxy knows nothing: it begins no dial of its own there, as it does to an
 * endpoint that it has left out. */
void endpoint_new(int i);
uint16_t endpoint_port(int i);
/* The endpoints of the next services are at ::1 as well. */
void service_both_families(bool both);
/* The next service_use: its ports are at the nodes' own addresses, too. */
void service_is_gateway(bool gateway);
/* The service gets the first n endpoints (also those that are down). */
void service_use(enum port_mode mode, enum lb_policy policy, int n);
/* The same with one endpoint of HTTP; fn(arg) is called on the loop before its worker has taken the
 * service. */
void service_use_late(loop_fn *fn, void *arg);
/* With ports 80 and 81, each with so many endpoints that are nowhere; the next call is for the
 * port. */
void service_use_wide(int n);
void calls_are_for(uint16_t port);
void service_gone(void);
/* Of the next service_use(), policy apart; NULL: none. */
void service_options(const struct service_lb *options);

int client_open(void);
/* From this address of 127.0.0.0/8. */
int client_open_as(uint32_t ip);
/* That Edgeway has passed on so often before. */
int client_open_hops(unsigned hops);
/* A connection that the proxy made to endpoint i; fails the test after WAIT_MS. */
int endpoint_accept(int i);
/* Is there one, within ms? */
bool endpoint_called(int i, int ms);

void put(int fd, const char *text);
void put_bytes(int fd, const void *data, size_t len);
/* Reads exactly this text, else the test fails. */
void expect(int fd, const char *text);
/* Reads until the text has come; returns all that was read, valid until the next call. */
const char *read_until(int fd, const char *text);
/* How many segments its connection has received. */
unsigned segments_in(int fd);
/* Reads a request's head at an endpoint. */
const char *head_at(int fd);
/* FIN, nothing before it. */
void expect_eof(int fd);
void expect_reset(int fd);
/* Nothing comes for ms. */
void expect_silence(int fd, int ms);
void shut(int fd);
void close_hard(int fd); /* RST */
uint64_t metric(const char *line_start); /* value of a sample */
uint64_t counted(const char *name); /* of a counter in the state */

/* Calls fn(arg) on the loop and waits for it. */
void on_loop(loop_fn *fn, void *arg);
struct lb **the_lb(void);
/* That of the worker, for watches of the test's own. */
struct loop *the_loop(void);
/* By which the endpoints are let in. */
const struct dial_guard *the_guard(void);
/* lb_stop, and wait until it is gone. */
void stop_lb(uint64_t drain_ms);
void begin_stop_lb(uint64_t drain_ms);
/* The same from within the loop: of a uint64_t. */
void stop_lb_here(void *drain_ms);
void lb_on_gone(void *arg); /* for lb_is_gone */
bool lb_is_gone(int wait_ms);
void start_lb(void);
void time_passes(unsigned ms);

#endif
