/*
 * The answers of an authoritative server for one zone whose names the caller looks up: reads what a
 * query asks for, and writes the answer after the lookup. RFC 1035, 2308 (negative answers with
 * SOA), 8020 (a name with only other names below it is NODATA), 8482 (ANY). No recursion, no
 * transfer, nothing outside the zone.
 *
 * Pure; any thread.
 *
 *	if (name_zone_read(&zone, &q, &asked))
 *		look up asked.name ("" is the zone itself), fill in `found`
 *	name_zone_write(&zone, &q, &asked, &found, &out);
 */
#ifndef EDGEWAY_DNS_ANSWER_ZONE_ANSWER_H
#define EDGEWAY_DNS_ANSWER_ZONE_ANSWER_H

#include <netinet/in.h>

#include "dns/answer/message.h"

enum { NAME_ADDRESSES_MAX = 32, NAME_TTL_MAX_S = 3600 };

enum name_is {
	NAME_UNKNOWN, /* cannot be looked up now: SERVFAIL */
	NAME_ABSENT,
	NAME_ABOVE, /* does not exist itself, but names below it do */
	NAME_THERE,
};

struct name_found {
	enum name_is is;
	uint32_t serial; /* of the zone */
	struct in6_addr addresses[NAME_ADDRESSES_MAX]; /* of the name; IPv4 as ::ffff:a.b.c.d */
	size_t n;
};

struct name_zone {
	uint8_t name[DNS_NAME_MAX]; /* wire form */
	uint8_t name_len, n_labels;
	uint32_t ttl_s;
	/* of ns.<zone>, the server itself; IPv4 as ::ffff:a.b.c.d; :: or 0.0.0.0: not published */
	struct in6_addr address;
};

struct name_asked {
	enum dns_rcode refused; /* else DNS_NOERROR */
	char name[DNS_NAME_MAX]; /* below the zone, lower case: "edge-1"; "" the zone itself */
	bool impossible; /* no name can look like this */
};

/* Returns 0, or -EINVAL: not a domain, or one that leaves no room for a name below it. */
int name_zone_init(struct name_zone *z, const char *domain, uint32_t ttl_s);
/* Whether the text can be a name below the zone. */
bool name_zone_holds(const struct name_zone *z, const char *name);
/* `q` was parsed with DNS_PARSE_OK. Returns true if asked->name must be looked up; false if the
 * answer needs no lookup. */
bool name_zone_read(const struct name_zone *z, const struct dns_query *q, struct name_asked *asked);
/* found: may be NULL if name_zone_read returned false; out->size is 512..65535. */
void name_zone_write(const struct name_zone *z, const struct dns_query *q,
	const struct name_asked *asked, const struct name_found *found, struct dns_out *out);
/* A complete answer that holds only the rcode, from a server that does not recurse. */
void name_zone_error(const struct dns_query *q, enum dns_rcode rcode, struct dns_out *out);

#endif
