/* A snapshot's zone to which a test puts queries, one by one or as rows of a table. */
#ifndef EDGEWAY_TESTS_ANSWER_BED_H
#define EDGEWAY_TESTS_ANSWER_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dns/answer/answer.h"
#include "tests/unit/dns/dns_kit.h"

#define D ".cluster.local"
#define SOA " SOA of cluster.local. ttl=5"
#define SEARCHED "NXDOMAIN an=0 ns=0 ar=0"
#define NX "NXDOMAIN aa an=0 ns=1 ar=0" SOA
#define NODATA "NOERROR aa an=0 ns=1 ar=0" SOA
#define WEB "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.10 ttl=30"
#define FORWARD "forward"
#define SET ".set.shop.svc.cluster.local. ttl=30"

enum {
	A = 1,
	NS = 2,
	CNAME = 5,
	SOA_TYPE = 6,
	PTR = 12,
	MX = 15,
	TXT = 16,
	AAAA = 28,
	SRV = 33,
	HTTPS = 65
};

struct answer_row {
	const char *name;
	unsigned type;
	const char *want;
	enum kit_edns edns;
};

struct answer_bed {
	struct dns_zone zone;
	struct snapshot *snapshot;
	struct buf text;
};

/* For cmocka. cluster.local with kit_snapshot's services, 9.251.0.0/16, at 172.17.0.1. */
int answer_bed_setup(void **state);
int answer_bed_teardown(void **state);
/* The answer as kit_describe says it, of *n bytes; "forward", "chase NAME", "drop". */
const char *answer_bed_ask(
	struct answer_bed *f, const uint8_t *m, size_t len, uint8_t *out, size_t *n);
/* Fails if one of the answers is another, after it has printed all that are. */
void answer_bed_rows(struct answer_bed *f, const struct answer_row *list, size_t count);

#endif
