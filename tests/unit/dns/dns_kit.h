/* What the tests and the fuzzer of dns/ share: queries from text, answers as text, a small
 * snapshot. */
#ifndef EDGEWAY_TESTS_DNS_KIT_H
#define EDGEWAY_TESTS_DNS_KIT_H

#include "base/core/buf.h"
#include "dns/answer/message.h"
#include "model/snapshot.h"

enum kit_edns { KIT_PLAIN, KIT_EDNS, KIT_DO, KIT_VERSION_1, KIT_TWO_OPT };

/* id 0xbeef, IN; flags as on the wire (0x0100: RD). Returns the length. */
size_t kit_query(
	uint8_t to[512], const char *name, unsigned type, unsigned flags, enum kit_edns edns);
/* "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.10 ttl=30"; "malformed" when it cannot be walked. */
const char *kit_describe(struct buf *out, const uint8_t *m, size_t len);

/* default/web 9.251.0.10 (ClusterIPs 10.96.0.10 and fd96::10; http 80/tcp, dns 53/udp), shop/db
 * headless 9.251.0.11 (unnamed 5432), shop/set headless 9.251.0.20 (sql 5432, ui 80) with set-0,
 * set-1, set-2 (not ready) at .21 to .23 and set-3 without address, shop/idle headless 9.251.0.24
 * whose pod i is not ready, shop/first ExternalName of set-0.set, ExternalNames of ExternalNames in
 * chain/, google/www 9.251.0.12, shop/full without address, default/out ExternalName
 * www.example.org, default/in ExternalName of web. */
struct snapshot *kit_snapshot(void);

#endif
