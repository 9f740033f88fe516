/*
 * Syntax checks of names and addresses: Kubernetes' own rules (DNS-1123 label and subdomain, label
 * values), so that nothing else ever enters the mesh. Leaves; the text need not end in NUL.
 */
#ifndef EDGEWAY_MODEL_CHECK_H
#define EDGEWAY_MODEL_CHECK_H

#include <netinet/in.h>

#include "base/core/util.h"

bool check_label(const char *text, size_t len); /* a-z 0-9 -, 1..63 */
bool check_subdomain(const char *text, size_t len); /* labels and dots, 1..253 */
bool check_service(const char *text, size_t len); /* a label, or two: <hostname>.<service> */
bool check_word(const char *text, size_t len); /* visible ASCII without quotes, 0..253 */
bool check_token(const char *text, size_t len); /* RFC 9110 section 5.6.2, 1..127 */
bool check_path(const char *text, size_t len); /* "/" and visible ASCII, 1..253 */
bool check_ip(const char *text, size_t len); /* IPv4 or IPv6, not 0.0.0.0 or :: */
/* The same, but the text may be empty. */
bool check_label_or_empty(const char *text, size_t len);
bool check_subdomain_or_empty(const char *text, size_t len);
bool check_path_or_empty(const char *text, size_t len);
bool check_ip_or_empty(const char *text, size_t len);

/* IPv4 as ::ffff:a.b.c.d; false when it is neither. */
bool ip_parse(const char *text, struct in6_addr *ip);
/* ADDRESS or ADDRESS/BITS; *bits is of 128; address bits beyond the prefix may be set. */
bool ip_net_parse(const char *text, struct in6_addr *prefix, unsigned *bits);
/* In host byte order; 0 when it is no IPv4 address. */
uint32_t ip_v4(const char *text);
bool ip_is_loopback(const struct in6_addr *ip);

#endif
