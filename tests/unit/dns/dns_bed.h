/* The whole of dns/ behind its door on 127.0.0.1, with two upstreams of the test's own and a client
 * by UDP. Time passes by bed_turn alone (tests/fake/clock.h). */
#ifndef EDGEWAY_TESTS_DNS_BED_H
#define EDGEWAY_TESTS_DNS_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dns/dns.h"
#include "tests/unit/dns/dns_kit.h"

/* SLOW_NAMES: it lives, but others that it asks are slow. */
/* ECHO: the query itself comes back. TORN: an answer without its end. */
/* FORGE: by UDP somebody else answers, with another address, who does not know the case of the
 * question. */
enum bed_mode {
	ANSWER,
	SILENT,
	FAIL,
	REFUSE,
	LIE,
	SLOW,
	SLOW_NAMES,
	FOLD,
	FORGE,
	LOOP,
	TRUNCATE,
	ECHO,
	TORN
};

struct held;

struct bed_upstream {
	int fd;
	struct addr addr;
	struct watch *watch;
	enum bed_mode mode;
	int tcp, tcp_peer; /* -1: none */
	struct watch *tcp_watch, *tcp_peer_watch;
	unsigned asked; /* pulses and questions that find loops do not count */
	unsigned tcp_asked;
	uint8_t flags, ad_cd; /* of the last query */
	bool edns_do;
	const uint16_t *port; /* of the DNS under test */
	uint8_t ip; /* 192.0.2.ip */
	uint8_t ttl_s;
	uint64_t delay_ms; /* when slow */
	struct loop *loop;
	struct held *held;
};

struct bed {
	struct loop *loop;
	struct loop *workers[2];
	struct bed_upstream up[2];
	struct addr upstreams[10]; /* others, in front of these; set before bed_start */
	size_t n_upstreams;
	struct dns *dns;
	struct snapshot *snapshot;
	uint16_t port;
	int client;
	char folder[64], path[96];
	struct buf text;
	bool stopped;
	pod_ask_fn *ask_pod; /* set before bed_start; arg: the bed */
	struct pod_ask *pod; /* for that */
	char name[64];
	unsigned n_names;
};

#define WEB "web.default.svc.cluster.local"
#define WEB_ANSWER "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.10 ttl=30"
#define FIRST "NOERROR an=1 ns=0 ar=0 A 192.0.2.1 ttl=60"
#define SECOND "NOERROR an=1 ns=0 ar=0 A 192.0.2.2 ttl=60"
#define SERVFAIL "SERVFAIL an=0 ns=0 ar=0"

/* For cmocka: everything but DNS itself, which bed_start opens. */
int bed_setup(void **state);
int bed_teardown(void **state);
void bed_start(struct bed *f);
void bed_begin_stop(struct bed *f);
void bed_stop(struct bed *f);
void bed_turn(struct bed *f);
void bed_upstream_close(struct bed_upstream *u);
/* From now on it answers by TCP, too. */
void bed_upstream_tcp(struct bed_upstream *u);

void bed_send(struct bed *f, const uint8_t *m, size_t len);
/* The next answer as kit_describe says it, or "nothing" after wait_ms. */
const char *bed_receive(struct bed *f, uint64_t wait_ms);
/* A, RD, no EDNS. */
const char *bed_ask(struct bed *f, const char *name, uint64_t wait_ms);
/* A name outside the mesh that was not asked for yet. */
const char *bed_fresh(struct bed *f);

#endif
