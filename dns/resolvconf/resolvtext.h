/*
 * The text of resolv.conf(5): converts the original to ours and back. Pure; the caller owns heap
 * results.
 *
 * Ours is the original with our nameserver on top, the effective search or domain line (the last
 * one; glibc and musl agree) replaced by ours plus what it held, and ndots:5. Each of our lines
 * stands below a comment that says what it is or what it replaced. So resolvtext_strip gives back
 * the original byte for byte even when no other record is left, and a line that another program
 * wrote into our text stays.
 */
#ifndef EDGEWAY_DNS_RESOLVCONF_RESOLVTEXT_H
#define EDGEWAY_DNS_RESOLVCONF_RESOLVTEXT_H

#include "base/core/sock.h"

enum {
	RESOLVTEXT_MAX = 64 * 1024, /* larger files are left alone */
	RESOLVTEXT_SEARCH_MAX = 255, /* musl ignores a longer list completely */
	RESOLVTEXT_UNKNOWN_MAX = 200,
};

/* `address`: our nameserver, host byte order. */
char *resolvtext_build(const char *original, size_t len, const char *cluster_domain,
	uint32_t address, size_t *out_len);
/* Whether the text has a line of ours. */
bool resolvtext_is_ours(const char *text, size_t len);
char *resolvtext_strip(const char *text, size_t len, size_t *out_len);
/* Appends the nameservers (port 53) to to[n..max), leaving out `own` (0: none), the unspecified
 * address and duplicates. Returns the new n. */
size_t resolvtext_upstreams(
	const char *text, size_t len, uint32_t own, struct addr *to, size_t n, size_t max);
/* The nameservers that resolvtext_upstreams does not understand ("fe80::1%eth0"), as "" or "a,b";
 * at most as many as fit RESOLVTEXT_UNKNOWN_MAX. */
char *resolvtext_unknown(const char *text, size_t len);

#endif
